// ByteSource: bytes that are read by offset, from a file or from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera {

class FileSystem;  // file_system.h

// A file's bytes, wherever they are.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Throws Error when they are not all to be had.
  virtual void read(uint64_t offset, void* to, size_t count) const = 0;
};

// Bytes in memory, which must outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t offset, void* to, size_t count) const override;

 private:
  std::span<const std::byte> bytes_;
};

// An ordinary file opened for reading. Throws Error, without the name of the file, when it cannot
// be opened, is no ordinary file, or cannot be read. Interrupted calls are repeated.
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
