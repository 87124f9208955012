// A file system in which one call fails, once or from then on.
#pragma once

#include <atomic>
#include <cerrno>
#include <map>
#include <string>

#include "tessera/runtime/file_system.h"

namespace tessera::testing_checkpoint {

struct Fault {
  static constexpr int kShort = -1, kNothing = -2;  // a write of one byte, a write of none

  std::string call;  // "open", "write", "pread", "fsync", "close", "rename", "unlink"
  int number = 1;    // the first call of that name that fails, from 1
  int error = EIO;   // or kShort, kNothing
  bool forever = false;

  std::string text() const {
    return call + " number " + std::to_string(number) + ", error " + std::to_string(error) +
           (forever ? ", for ever" : ", once");
  }
};

class FaultyFiles : public FileSystem {
 public:
  // An empty call: nothing fails. Counting starts anew.
  void set(const Fault& fault) {
    fault_ = fault;
    counts_.clear();
  }
  int count(const std::string& call) const {
    const auto found = counts_.find(call);
    return found == counts_.end() ? 0 : found->second;
  }

  int open(const char* path, int flags, int mode) override {
    return fails("open") ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t write(int file, const void* bytes, size_t bytes_left) override {
    if (!fails("write")) return FileSystem::write(file, bytes, bytes_left);
    if (fault_.error == Fault::kNothing) return 0;
    return fault_.error == Fault::kShort ? FileSystem::write(file, bytes, 1) : -1;
  }
  ssize_t pread(int file, void* bytes, size_t bytes_left, int64_t offset) override {
    if (!fails("pread")) return FileSystem::pread(file, bytes, bytes_left, offset);
    return fault_.error == Fault::kShort ? FileSystem::pread(file, bytes, 1, offset) : -1;
  }
  int fsync(int file) override { return fails("fsync") ? -1 : FileSystem::fsync(file); }
  int close(int file) override {
    const int result = FileSystem::close(file);  // the file is closed whatever is said
    return fails("close") ? -1 : result;
  }
  int rename(const char* from, const char* to) override {
    return fails("rename") ? -1 : FileSystem::rename(from, to);
  }
  int unlink(const char* path) override { return fails("unlink") ? -1 : FileSystem::unlink(path); }

 private:
  bool fails(const char* call) {
    const int number = ++counts_[call];
    if (fault_.call != call || number < fault_.number) return false;
    if (number > fault_.number && !fault_.forever) return false;
    if (fault_.error > 0) errno = fault_.error;
    return true;
  }

  Fault fault_;
  std::map<std::string, int> counts_;
};

}  // namespace tessera::testing_checkpoint
