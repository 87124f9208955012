// File systems for tests: one call fails, once or from then on, or the disk is full.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "tessera/runtime/files/file_system.h"

namespace tessera::testing_checkpoint {

struct Fault {
  static constexpr int kShort = -1, kNothing = -2;  // a write of one byte, of none

  std::string call;  // "open", "write", "pread", "ftruncate",
                     // "fsync", "close", "rename", "unlink"
  int number = 1;    // the first call of that name that fails, from 1
  int error = EIO;   // or kShort, kNothing
  bool forever = false;
  std::string path = "";  // only files whose path contains it

  std::string text() const {
    return call + (path.empty() ? "" : " of " + path) + " number " + std::to_string(number) +
           ", error " + std::to_string(error) + (forever ? ", for ever" : ", once");
  }
};

class FaultyFiles : public FileSystem {
 public:
  // Sets the fault (none if its call is empty) and counts calls from 0 again.
  void set(const Fault& fault) {
    std::lock_guard lock(mutex_);
    fault_ = fault;
    counts_.clear();
  }
  int count(const std::string& call) const {
    std::lock_guard lock(mutex_);
    const auto found = counts_.find(call);
    return found == counts_.end() ? 0 : found->second;
  }

  int open(const char* path, int flags, int mode) override {
    if (fails("open", path)) return -1;
    const int file = FileSystem::open(path, flags, mode);
    std::lock_guard lock(mutex_);
    paths_[file] = path;
    return file;
  }
  ssize_t write(int file, const void* bytes, size_t bytes_left) override {
    if (!fails("write", file)) return FileSystem::write(file, bytes, bytes_left);
    if (fault_.error == Fault::kNothing) return 0;
    return fault_.error == Fault::kShort ? FileSystem::write(file, bytes, 1) : -1;
  }
  ssize_t pread(int file, void* bytes, size_t bytes_left, int64_t offset) override {
    if (!fails("pread", file)) return FileSystem::pread(file, bytes, bytes_left, offset);
    return fault_.error == Fault::kShort ? FileSystem::pread(file, bytes, 1, offset) : -1;
  }
  int ftruncate(int file, int64_t size) override {
    return fails("ftruncate", file) ? -1 : FileSystem::ftruncate(file, size);
  }
  int fsync(int file) override { return fails("fsync", file) ? -1 : FileSystem::fsync(file); }
  int close(int file) override {
    const bool failed = fails("close", file);
    const int error = errno;
    const int result = FileSystem::close(file);  // the file is closed in any case
    if (failed) errno = error;
    return failed ? -1 : result;
  }
  int rename(const char* from, const char* to) override {
    return fails("rename", to) ? -1 : FileSystem::rename(from, to);
  }
  int unlink(const char* path) override {
    return fails("unlink", path) ? -1 : FileSystem::unlink(path);
  }

 private:
  bool fails(const char* call, int file) {
    std::string path;
    {
      std::lock_guard lock(mutex_);
      path = paths_[file];
    }
    return fails(call, path);
  }
  bool fails(const char* call, const std::string& path) {
    std::lock_guard lock(mutex_);
    if (path.find(fault_.path) == std::string::npos) return false;
    const int number = ++counts_[call];
    if (fault_.call != call || number < fault_.number) return false;
    if (number > fault_.number && !fault_.forever) return false;
    if (fault_.error > 0) errno = fault_.error;
    return true;
  }

  mutable std::mutex mutex_;
  Fault fault_;
  std::map<std::string, int> counts_;
  std::map<int, std::string> paths_;  // paths of open files
};

// A disk with a limited number of free bytes for the files whose path contains `path`. It fills up
// in the middle of a write.
class FullDisk : public FileSystem {
 public:
  explicit FullDisk(std::string path, int64_t room) : path_(std::move(path)), room_(room) {}
  void make_room(int64_t room) { room_ = room; }
  void refuse_to_cut(bool refuse) { refuse_to_cut_ = refuse; }

  int open(const char* path, int flags, int mode) override {
    const int file = FileSystem::open(path, flags, mode);
    std::lock_guard lock(mutex_);
    if (std::string(path).find(path_) != std::string::npos) files_.insert(file);
    return file;
  }
  ssize_t write(int file, const void* bytes, size_t count) override {
    std::lock_guard lock(mutex_);
    if (files_.count(file) == 0) return FileSystem::write(file, bytes, count);
    const int64_t fits = std::min(static_cast<int64_t>(count), room_);
    errno = ENOSPC;
    if (fits == 0) return -1;
    room_ -= fits;
    return FileSystem::write(file, bytes, static_cast<size_t>(fits));
  }
  int ftruncate(int file, int64_t size) override {
    errno = EIO;
    return refuse_to_cut_ ? -1 : FileSystem::ftruncate(file, size);
  }
  int close(int file) override {
    std::lock_guard lock(mutex_);
    files_.erase(file);
    return FileSystem::close(file);
  }

 private:
  const std::string path_;
  std::mutex mutex_;
  std::set<int> files_;
  int64_t room_;
  bool refuse_to_cut_ = false;
};

}  // namespace tessera::testing_checkpoint
