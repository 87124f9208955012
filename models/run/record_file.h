// A file that grows by whole records and outlives a full disk: what cannot be written whole is
// taken back, so that the next record stands behind the last good one.
//
// The first record that is lost is a warning; nothing is thrown once the file is open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/runtime/files/file_system.h"

namespace tessera {

// Throws RunFolderError: "run folder: cannot write 'runs/a/metrics.csv': No space left on device;
// check run.dir". `error` as in errno.
[[noreturn]] void refuse_run_file(const std::string& path, const char* operation, int error);

// Not thread-safe.
class RecordFile {
 public:
  // Keeps the first `keep` bytes of the file and cuts the rest. `head` is what a file begins with
  // that has none; like the records it is tried again as long as it fails. Throws
  // RunFolderError naming the path when the file cannot be opened or cut.
  RecordFile(FileSystem& files, std::string path, std::string head, int64_t keep = 0);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Appends a record, on its way to the disk when it returns, or counts it as missing. Allocates
  // nothing unless that is the first one.
  void append(std::string_view record);

  const std::string& path() const { return path_; }
  int descriptor() const { return file_; }
  int64_t missing() const { return missing_; }
  // "'runs/a/metrics.csv' lacks 3 of 12 lines (No space left on device)"; empty when none is.
  std::string error_summary(const char* records) const;

 private:
  bool put(std::string_view bytes);
  bool take_back();
  bool write(std::string_view bytes);

  FileSystem& files_;
  std::string path_, head_;
  int file_ = -1;
  int64_t size_;       // of what is whole
  bool half_ = false;  // there may be more behind it
  int64_t given_ = 0, missing_ = 0;
  int error_ = 0;
};

}  // namespace tessera
