// RecordFile: an append-only file of records that survives a full disk. A partly written record is
// removed, so the next record follows the last complete one.
//
// The first lost record is a warning; nothing is thrown once the file is open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/runtime/files/file_system.h"

namespace tessera {

// Throws RunFolderError: "run folder: cannot write 'runs/a/metrics.csv': No space left on device;
// check run.dir". `error` is an errno value.
[[noreturn]] void refuse_run_file(const std::string& path, const char* operation, int error);

// Creates the folder and its parents. Throws RunFolderError.
void make_run_folder(const std::string& path);
// Returns the names of the entries of a folder, unsorted; none if it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

// Not thread-safe.
class RecordFile {
 public:
  // Keeps the first `keep` bytes of the file and truncates the rest. An empty file begins with
  // `head`, which is retried with each record until writing succeeds. Throws RunFolderError naming
  // the path if the file cannot be opened or truncated.
  RecordFile(FileSystem& files, std::string path, std::string head, int64_t keep = 0);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Appends a record with write(2), or counts the record as missing. Allocates only for the first
  // missing record.
  void append(std::string_view record);

  const std::string& path() const { return path_; }
  int descriptor() const { return file_; }
  int64_t missing() const { return missing_; }
  // "'runs/a/metrics.csv' lacks 3 of 12 lines (No space left on device)"; "" if none is missing.
  std::string error_summary(const char* records) const;

 private:
  bool put(std::string_view bytes);
  bool take_back();
  bool write(std::string_view bytes);

  FileSystem& files_;
  std::string path_, head_;
  int file_ = -1;
  int64_t size_;       // bytes of complete records
  bool half_ = false;  // a partial record may follow
  int64_t given_ = 0, missing_ = 0;
  int error_ = 0;
};

// Returns a field of a CSV file, quoted if RFC 4180 requires it.
std::string csv_field(const std::string& text);

}  // namespace tessera
