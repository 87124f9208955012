#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string_view>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/tools/data_fetch.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxMember = 256 << 20;
constexpr int kMaxEntries = 1000;

// The entries of a .tar.gz, one after the other. libarchive reads; nothing is written by it.
class TarReader {
 public:
  explicit TarReader(const std::string& path)
      : path_(path), archive_(archive_read_new(), archive_read_free) {
    if (!archive_) throw std::bad_alloc();
    need(archive_read_support_format_tar(archive_.get()));
    need(archive_read_support_filter_gzip(archive_.get()));  // a warning: it would run gzip
    need(archive_read_open_filename(archive_.get(), path.c_str(), kPiece));
  }

  // Null at the end.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) return nullptr;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail();
    if (archive_entry_size(entry) > kMaxMember) fail("the entry is larger than any of a data set");
    if (++entries_ > kMaxEntries) fail("it has more entries than any data set");
    return entry;
  }

  // The contents of the entry that next() returned.
  void read(int64_t size, std::ofstream& out) {
    for (int64_t left = size; left > 0;) {
      const la_ssize_t got = archive_read_data(archive_.get(), piece_.data(),
                                               std::min(piece_.size(), static_cast<size_t>(left)));
      if (got < 0) fail();
      if (got == 0) fail("an entry ends too early");
      out.write(piece_.data(), got);
      left -= got;
    }
  }

 private:
  static constexpr size_t kPiece = 1 << 16;

  void need(int result) {
    if (result != ARCHIVE_OK) fail();
  }
  [[noreturn]] void fail() {
    const char* why = archive_error_string(archive_.get());
    fail(why != nullptr ? why : "it cannot be read");
  }
  [[noreturn]] void fail(const std::string& why) {
    throw DataError(fmt::format(
        "{}: byte {} (decompressed): {}; it is damaged or not what its name says, get it again",
        path_, std::max<int64_t>(0, archive_filter_bytes(archive_.get(), 0)), why));
  }

  const std::string path_;
  std::unique_ptr<archive, decltype(&archive_read_free)> archive_;
  std::vector<char> piece_ = std::vector<char>(kPiece);
  int entries_ = 0;
};

// The name of a plain file; "" for all else: links, folders, devices.
std::string_view name_of(archive_entry* entry) {
  const char* text = archive_entry_pathname(entry);
  if (text == nullptr || archive_entry_filetype(entry) != AE_IFREG ||
      archive_entry_hardlink(entry) != nullptr)
    return "";
  const std::string_view name = text;
  return name.starts_with("./") ? name.substr(2) : name;
}

void write_member(TarReader& tar, int64_t size, const fs::path& path) {
  fs::create_directories(path.parent_path());
  fs::path part = path;
  part += ".part";
  fs::remove(part);
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  tar.read(size, out);
  out.close();
  if (!out) throw DataError(part.string() + ": the disk refuses");
  fs::rename(part, path);
}

}  // namespace

void unpack(const std::string& archive, const std::vector<std::string>& members,
            const std::string& folder) {
  TarReader tar(archive);
  std::vector<std::string> missing = members;
  while (!missing.empty()) {
    archive_entry* entry = tar.next();
    if (entry == nullptr) break;
    auto member = std::find(missing.begin(), missing.end(), name_of(entry));
    if (member == missing.end()) continue;
    write_member(tar, archive_entry_size(entry), fs::path(folder) / *member);
    missing.erase(member);
  }
  if (!missing.empty())
    throw DataError(fmt::format("{}: '{}' is not in the archive", archive, missing[0]));
}

}  // namespace tessera
