// FileSystem: the system calls for files that must be durable, so that a test can let each of them
// fail; write_durably(), which writes such a file; and ByteSource, bytes that are read by offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace tessera {

// Each member is the system call of its name: returns -1 and sets errno on failure. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const char* path, int flags, int mode) { return ::open(path, flags, mode); }
  virtual ssize_t write(int file, const void* bytes, size_t count) {
    return ::write(file, bytes, count);
  }
  virtual ssize_t pread(int file, void* bytes, size_t count, int64_t offset) {
    return ::pread(file, bytes, count, offset);
  }
  virtual int ftruncate(int file, int64_t size) { return ::ftruncate(file, size); }
  virtual int fsync(int file) { return ::fsync(file); }
  virtual int close(int file) { return ::close(file); }
  virtual int rename(const char* from, const char* to) { return std::rename(from, to); }
  virtual int unlink(const char* path) { return ::unlink(path); }
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

// The bytes of a file, on disk or in memory.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Reads bytes [offset, offset + count). Throws Error if not all of them can be read.
  virtual void read(uint64_t offset, void* to, size_t count) const = 0;
};

// Bytes in memory, which must outlive this object.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t offset, void* to, size_t count) const override;

 private:
  std::span<const std::byte> bytes_;
};

// A regular file opened for reading. Throws Error, without the file name, if it cannot be opened,
// is not a regular file, or cannot be read. Interrupted calls are repeated.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path, FileSystem& files = file_system());
  ~FileSource() override { files_.close(file_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  uint64_t size() const override { return size_; }
  void read(uint64_t offset, void* to, size_t count) const override;

 private:
  FileSystem& files_;
  int file_;
  uint64_t size_ = 0;
};

}  // namespace tessera
