// MemoryFile: a file in memory, for readers that take paths.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace tessera::fuzz {

// Not thread-safe. The path ends with the given name, as its extension matters.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& name) : file_(memfd_create("fuzz", MFD_CLOEXEC)) {
    char folder[] = "/tmp/tessera_fuzz_XXXXXX";
    if (file_ < 0 || mkdtemp(folder) == nullptr) std::abort();
    folder_ = folder;
    path_ = folder_ + "/" + name;
    std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(file_), path_);
  }
  ~MemoryFile() {
    close(file_);
    std::filesystem::remove_all(folder_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& hold(const uint8_t* bytes, size_t size) {
    if (ftruncate(file_, 0) != 0 || pwrite(file_, bytes, size, 0) != static_cast<ssize_t>(size))
      std::abort();
    return path_;
  }

 private:
  int file_;
  std::string folder_, path_;
};

}  // namespace tessera::fuzz
