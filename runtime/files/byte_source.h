// ByteSource: bytes that are read by offset, from a file or from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera {

class FileSystem;  // file_system.h

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
  explicit FileSource(const std::string& path);
  FileSource(const std::string& path, FileSystem& files);
  ~FileSource() override;
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
