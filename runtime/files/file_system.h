// The calls of the operating system that files which must last are made with, so that a test can
// let any of them fail; and the one way such a file is written.
//
// Each member is the system call of its name: -1 and errno when it fails. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/types.h>

#include "tessera/runtime/error.h"

namespace tessera {

// A file that was to be written and cannot be: a full disk, a right that is missing.
class OutputError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 5; }
};

// The most interruptions of one call in a row; a call that never gets through is an error.
inline constexpr int kMaxInterruptions = 1000;

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const char* path, int flags, int mode);
  virtual ssize_t write(int file, const void* bytes, size_t count);
  virtual ssize_t pread(int file, void* bytes, size_t count, int64_t offset);
  virtual int ftruncate(int file, int64_t size);
  virtual int fsync(int file);
  virtual int close(int file);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
};

// The machine's.
FileSystem& file_system();

// For errors about a path that leads nowhere: "; relative paths begin at the current folder
// '/home/me'",
// "" if the path is absolute.
std::string relative_path_help(const std::string& path);

// What went wrong, if anything.
struct FileError {
  const char* operation = nullptr;  // "write": what could not be done; nullptr: all is well
  int error = 0;                    // errno
  bool in_place = false;            // yet the new file stands under its name
  explicit operator bool() const { return operation != nullptr; }
};

// Writes all of them, going on after interruptions and short writes; false and errno when that
// cannot be. Allocates nothing.
bool write_all(FileSystem& files, int file, std::span<const std::byte> bytes) noexcept;

// Puts the parts, one behind the other, into PATH.partial, waits until the disk has them, renames
// that to `path` and waits until the disk has the name: at any moment, also when the process is
// killed or the machine loses power, `path` is the old file or the whole new one. After a fault
// `path` is the old one still, or already the new one if only the folder could not be synchronised;
// the partial file is gone if it can be removed. Interrupted calls are repeated, short writes go
// on. Allocates nothing, throws nothing.
FileError write_durably(FileSystem& files, const char* path,
                        std::span<const std::span<const std::byte>> parts) noexcept;

}  // namespace tessera
