#include "tessera/models/run/record_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"

namespace tessera {

void refuse_run_file(const std::string& path, const char* operation, int error) {
  throw RunFolderError(fmt::format("run folder: cannot {} '{}': {}; check run.dir", operation, path,
                                   std::strerror(error)));
}

void make_run_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) refuse_run_file(path, "create", error.value());
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    names.push_back(at->path().filename().string());
  return names;
}

RecordFile::RecordFile(FileSystem& files, std::string path, std::string head, int64_t keep)
    : files_(files), path_(std::move(path)), head_(std::move(head)), size_(keep) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  file_ = files_.open(path_.c_str(), kFlags | (keep == 0 ? O_TRUNC : 0), 0666);
  if (file_ < 0) refuse_run_file(path_, "write", errno);
  if (keep > 0 && files_.ftruncate(file_, keep) != 0) {
    const int error = errno;
    files_.close(file_);
    refuse_run_file(path_, "truncate", error);
  }
  if (size_ == 0) put("");
}

RecordFile::~RecordFile() { files_.close(file_); }

void RecordFile::append(std::string_view record) {
  ++given_;
  if (put(record)) return;
  if (missing_++ > 0) return;
  log(LogLevel::warning,
      fmt::format("'{}' cannot be written: {}; new lines are lost until writing succeeds "
                  "again, existing lines are kept, and training continues",
                  path_, std::strerror(error_)));
}

// Writes after the last complete record. Does not write if a partial record cannot be removed: a
// full disk may refuse that too.
bool RecordFile::put(std::string_view bytes) {
  const std::string_view head = size_ == 0 ? std::string_view(head_) : std::string_view();
  if (take_back() && write(head) && write(bytes)) {
    half_ = false;
    size_ += static_cast<int64_t>(head.size() + bytes.size());
    return true;
  }
  error_ = errno;
  take_back();
  return false;
}

bool RecordFile::take_back() {
  if (half_ && files_.ftruncate(file_, size_) != 0) return false;
  half_ = false;
  return true;
}

bool RecordFile::write(std::string_view bytes) {
  half_ = half_ || !bytes.empty();
  return write_all(files_, file_, std::as_bytes(std::span(bytes)));
}

std::string RecordFile::error_summary(const char* records) const {
  if (missing_ == 0) return "";
  return fmt::format("'{}' lacks {} of {} {} ({})", path_, missing_, given_, records,
                     std::strerror(error_));
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace tessera
