// A file read from front to back, plain or gzip-compressed (by its name's ending, ".gz").
// Everything that goes wrong is a DataError that names the file and the byte offset. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tessera {

class DataFile {
 public:
  // Throws DataError when the file cannot be opened.
  explicit DataFile(std::string path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& path() const { return path_; }
  bool compressed() const { return compressed_; }
  // Bytes of the file as it lies on disk.
  int64_t disk_bytes() const { return disk_bytes_; }
  // Bytes handed out so far: the place in the contents, after decompression.
  int64_t offset() const { return offset_; }
  // No contents of more than this many bytes can be in the file: its size, or for a compressed one
  // what deflate can make of that at most. To be asked before memory is taken on a header's word.
  int64_t most_bytes() const;

  // Fills bytes [0, size); throws when the contents end before (what: "image 17").
  void read(void* bytes, size_t size, const char* what);
  // Throws unless the contents, and a compressed file's check sum, end here.
  void expect_end(const char* what);

  // A DataError "PATH: byte OFFSET: text".
  [[noreturn]] void fail(int64_t offset, const std::string& text) const;

 private:
  struct Inflater;
  size_t read_some(uint8_t* bytes, size_t size);  // fewer only at the end
  size_t read_disk(uint8_t* bytes, size_t size);

  std::string path_;
  bool compressed_ = false;
  int64_t disk_bytes_ = 0, offset_ = 0;
  void* file_ = nullptr;  // FILE*
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace tessera
