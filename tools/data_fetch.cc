#include "tessera/tools/data_fetch.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string_view>
#include <thread>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/files/sha256.h"
#include "tessera/runtime/text/terminal.h"
#include "tessera/tools/output.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Limits for one mirror and file. An attempt that adds less than a thousandth of the file is
// fruitless, so that the number of requests is bounded for any server.
constexpr int kMaxFruitless = 5;
constexpr int64_t kMinPart = 1000;
constexpr std::chrono::milliseconds kFirstWait{100}, kLongestWait{2000};

// Prints lines, and on a terminal the progress of a download below them, a few times a second.
class FetchOutput {
 public:
  ~FetchOutput() { clear(); }
  void say(const std::string& text) const {
    clear();
    print_line(text);
  }
  void show(const PublishedFile& file, int64_t bytes) {
    constexpr std::chrono::milliseconds kPause{250};
    const auto now = std::chrono::steady_clock::now();
    if (!active_ || now < next_) return;
    next_ = now + kPause;
    set_status(stdout, fmt::format("{}: {} % of {:.1f} MiB", file.name, bytes * 100 / file.bytes,
                                   static_cast<double>(file.bytes) / (1 << 20)));
  }

 private:
  void clear() const {
    if (active_) set_status(stdout, "");
  }

  const bool active_ = can_redraw(stdout);
  std::chrono::steady_clock::time_point next_{};
};

std::string digest_of(const std::string& path) {
  Sha256 sum;
  std::vector<char> bytes(1 << 16);
  std::ifstream in(path, std::ios::binary);
  while (in) {
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    sum.add(std::as_bytes(std::span(bytes)).first(static_cast<size_t>(in.gcount())));
  }
  return sum.digest();
}

bool holds(const std::string& path, const PublishedFile& expected) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  try {
    verify_file(path, expected);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

int64_t size_of(const std::string& path) {
  std::error_code error;
  auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Requests the file from one mirror until it is complete. Returns "" or the error.
std::string complete(const std::string& url, const std::string& part, const PublishedFile& file,
                     FetchOutput& out) {
  const auto there = [&](int64_t bytes) { out.show(file, bytes); };
  int64_t furthest = size_of(part);
  auto wait = kFirstWait;
  for (int fruitless = 0; furthest < file.bytes;) {
    const Download done = download(url, part, file.bytes, there);
    if (done.why.empty()) break;
    if (size_of(part) < furthest + std::max<int64_t>(1, file.bytes / kMinPart)) {
      ++fruitless;
    } else {
      wait = kFirstWait;
    }
    furthest = std::max(furthest, size_of(part));
    if (!done.may_pass || fruitless == kMaxFruitless) return done.why;
    std::this_thread::sleep_for(wait);
    wait = std::min(2 * wait, kLongestWait);
  }
  return "";
}

// Downloads from one mirror to PATH.part and renames that to `path` if it is right. Returns "" or
// the error.
std::string fetch_from(const std::string& url, const std::string& path, const PublishedFile& file,
                       FetchOutput& out) {
  const std::string part = path + ".part";
  if (size_of(part) > file.bytes) fs::remove(part);
  const bool resumed = size_of(part) > 0;
  std::string why = complete(url, part, file, out);
  if (!why.empty()) return why;
  try {
    verify_file(part, file);
  } catch (const DataError& error) {
    fs::remove(part);
    // The earlier part may have been wrong: start again from the first byte.
    if (resumed) return fetch_from(url, path, file, out);
    return error.what();
  }
  fs::rename(part, path);
  return "";
}

void fetch_file(const PublishedSet& set, const PublishedFile& file, const std::string& root,
                const std::string& from, FetchOutput& out) {
  const std::string path = (fs::path(root) / file.name).string();
  if (holds(path, file)) return out.say(fmt::format("{}: already present", path));
  if (!from.empty() && from.find("://") == std::string::npos) {
    const std::string source = (fs::path(from) / file.name).string();
    verify_file(source, file);
    if (fs::exists(path) && fs::equivalent(source, path)) return;
    fs::copy_file(source, path + ".part", fs::copy_options::overwrite_existing);
    fs::rename(path + ".part", path);
    return out.say(fmt::format("{}: copied from {}", path, source));
  }
  std::vector<std::string> mirrors = set.mirrors;
  if (!from.empty()) mirrors = {from.ends_with('/') ? from : from + "/"};
  std::string tried;
  for (const std::string& mirror : mirrors) {
    out.say(fmt::format("{}: {:.1f} MiB from {}", file.name,
                        static_cast<double>(file.bytes) / (1 << 20), mirror));
    std::string why = fetch_from(mirror + file.name, path, file, out);
    if (why.empty()) return out.say(fmt::format("{}: SHA-256 is correct", path));
    tried += fmt::format("\n  {}{}: {}", mirror, file.name, why);
  }
  throw DataError(
      fmt::format("data fetch {}: cannot download {}; tried{}\n  download it in another way and "
                  "pass its folder with --from",
                  set.name, file.name, tried));
}

constexpr int64_t kMaxMember = 256 << 20;
constexpr int kMaxEntries = 1000;

// Iterates over the entries of a .tar.gz. libarchive only reads; it writes no files.
class TarReader {
 public:
  explicit TarReader(const std::string& path)
      : path_(path), archive_(archive_read_new(), archive_read_free) {
    if (!archive_) throw std::bad_alloc();
    need(archive_read_support_format_tar(archive_.get()));
    need(archive_read_support_filter_gzip(archive_.get()));  // a warning: would run gzip
    need(archive_read_open_filename(archive_.get(), path.c_str(), kPiece));
  }

  // Returns nullptr at the end.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) return nullptr;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail();
    if (archive_entry_size(entry) > kMaxMember) fail("an entry is too large for a data set");
    if (++entries_ > kMaxEntries) fail("the archive has more entries than any data set");
    return entry;
  }

  // Copies the contents of the entry that next() returned.
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
    fail(why != nullptr ? why : "the archive cannot be read");
  }
  [[noreturn]] void fail(const std::string& why) {
    throw DataError(fmt::format(
        "{}: byte {} (decompressed): {}; the file is damaged or wrong; download it again", path_,
        std::max<int64_t>(0, archive_filter_bytes(archive_.get(), 0)), why));
  }

  const std::string path_;
  std::unique_ptr<archive, decltype(&archive_read_free)> archive_;
  std::vector<char> piece_ = std::vector<char>(kPiece);
  int entries_ = 0;
};

// Returns the name of a regular file; "" for links, folders and devices.
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
  if (!out) throw DataError(part.string() + ": writing failed; free disk space");
  fs::rename(part, path);
}

}  // namespace

std::string known_set_names() {
  std::string names;
  for (const PublishedSet& set : published_sets()) names += (names.empty() ? "" : ", ") + set.name;
  return names;
}

PublishedSet known_set(const std::string& name) {
  std::string wanted = name;
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  if (const PublishedSet* set = find_published(wanted)) return *set;
  throw ConfigError(fmt::format("data fetch: '{}' is not one of {}", name, known_set_names()));
}

std::vector<PublishedFile> read_manifest(const std::string& path) {
  std::ifstream in(path);
  std::vector<PublishedFile> files;
  PublishedFile file;
  while (in >> file.sha256 >> file.bytes >> file.name) {
    bool plain = file.name.find('/') == std::string::npos && file.name[0] != '.';
    if (file.sha256.size() != 64 || file.bytes < 1 || !plain) {
      files.clear();
      break;
    }
    files.push_back(file);
  }
  if (files.empty() || !in.eof())
    throw ConfigError(path + ": must have lines 'SHA256 BYTES NAME', and names without folders");
  return files;
}

void verify_file(const std::string& path, const PublishedFile& expected) {
  std::error_code error;
  int64_t size = static_cast<int64_t>(fs::file_size(path, error));
  if (error) throw DataError(fmt::format("{}: {}", path, error.message()));
  if (size != expected.bytes)
    throw DataError(
        fmt::format("{}: has {} bytes, but the published file has {}", path, size, expected.bytes));
  const std::string hex = digest_of(path);
  if (hex != expected.sha256)
    throw DataError(fmt::format("{}: is not the published file: its SHA-256 is {}, not {}", path,
                                hex, expected.sha256));
}

void fetch(const PublishedSet& set, const std::string& root, const std::string& from) try {
  FetchOutput out;
  fs::create_directories(root);
  for (const PublishedFile& file : set.downloads) {
    fetch_file(set, file, root, from, out);
    if (!file.name.ends_with(".tar.gz")) continue;
    const std::vector<std::string> members = set.members();
    unpack((fs::path(root) / file.name).string(), members, root);
    out.say(fmt::format("{}: {} files unpacked", root, members.size()));
  }
} catch (const fs::filesystem_error& error) {
  throw DataError(fmt::format("data fetch {}: {}", set.name, error.what()));
}

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
