// FileSystem: the system calls for files that must be durable, so that a test can let each of them
// fail; and write_durably(), which writes such a file.
//
// Each member is the system call of its name: returns -1 and sets errno on failure. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/types.h>

#include "tessera/runtime/error.h"

namespace tessera {

// An output file that cannot be written: a full disk, a missing permission.
class OutputError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 5; }
};

// Maximum interruptions of one call in a row; more are an error.
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

// Returns the operating system's file system.
FileSystem& file_system();

// Returns "; relative paths begin at the current folder '/home/me'" for errors about missing paths;
// "" if the path is absolute.
std::string relative_path_help(const std::string& path);

// The failed operation, if any.
struct FileError {
  const char* operation = nullptr;  // "write"; nullptr: no error
  int error = 0;                    // errno
  bool in_place = false;            // true: the new file already has its final name
  explicit operator bool() const { return operation != nullptr; }
};

// Writes all bytes; continues after interruptions and short writes. Returns false and sets errno on
// failure. Allocates nothing.
bool write_all(FileSystem& files, int file, std::span<const std::byte> bytes) noexcept;

// Writes the parts in order to PATH.partial, syncs it, renames it to `path` and syncs the folder.
// At any moment, even if the process is killed or power fails, `path` is the old file or the
// complete new one. After an error `path` is the old file, or the new one if only the folder could
// not be synced; the partial file is removed if possible. Interrupted calls are repeated, short
// writes continued. Allocates nothing, throws nothing.
FileError write_durably(FileSystem& files, const char* path,
                        std::span<const std::span<const std::byte>> parts) noexcept;

}  // namespace tessera
