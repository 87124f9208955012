#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "tessera/runtime/files/data_file.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/data_fetch.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kBlock = 512, kMaxMember = 256 << 20;
constexpr int kMaxEntries = 1000;
using Block = std::array<char, kBlock>;

// A number of a header: octal digits, ended by a zero or a space.
std::optional<int64_t> octal(const Block& header, size_t at, size_t size) {
  int64_t value = 0;
  size_t i = at;
  while (i < at + size && header[i] == ' ') ++i;
  for (; i < at + size && header[i] != '\0' && header[i] != ' '; ++i) {
    if (header[i] < '0' || header[i] > '7') return {};
    value = value * 8 + (header[i] - '0');
  }
  return value;
}

bool checksum_holds(const Block& header) {
  constexpr size_t kAt = 148, kSize = 8;
  int64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i)
    sum += i >= kAt && i < kAt + kSize ? ' ' : static_cast<uint8_t>(header[i]);
  return octal(header, kAt, kSize) == sum;
}

std::string text(const Block& header, size_t at, size_t size) {
  auto begin = header.begin() + static_cast<int64_t>(at), end = begin + static_cast<int64_t>(size);
  return {begin, std::find(begin, end, '\0')};
}

std::string name_of(const Block& header) {
  std::string prefix = text(header, 257, 5) == "ustar" ? text(header, 345, 155) : "";
  std::string name = (prefix.empty() ? "" : prefix + "/") + text(header, 0, 100);
  return name.starts_with("./") ? name.substr(2) : name;
}

// The contents of the entry, padded to whole blocks, into `out` or nowhere.
void pass(DataFile& tar, int64_t size, std::ofstream* out) {
  Block block;
  for (int64_t left = size; left > 0; left -= kBlock) {
    tar.read(block.data(), block.size(), "an entry of the archive");
    if (out != nullptr) out->write(block.data(), std::min(left, kBlock));
  }
}

void write_member(DataFile& tar, int64_t size, const fs::path& path) {
  fs::create_directories(path.parent_path());
  fs::path part = path;
  part += ".part";
  fs::remove(part);
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  pass(tar, size, &out);
  out.close();
  if (!out) throw DataError(part.string() + ": the disk refuses");
  fs::rename(part, path);
}

}  // namespace

void unpack(const std::string& archive, const std::vector<std::string>& members,
            const std::string& folder) {
  DataFile tar(archive);
  std::vector<std::string> missing = members;
  Block header;
  for (int entries = 0; !missing.empty(); ++entries) {
    int64_t at = tar.offset();
    tar.read(header.data(), header.size(), "a header of the archive");
    if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) break;
    std::optional<int64_t> size = octal(header, 124, 12);
    if (!checksum_holds(header) || !size || *size > kMaxMember || entries == kMaxEntries)
      tar.fail(at, "is no header of a tar archive, or of a larger one than is expected");
    const bool plain = header[156] == '0' || header[156] == '\0';
    auto member = std::find(missing.begin(), missing.end(), name_of(header));
    if (!plain || member == missing.end()) {
      pass(tar, *size, nullptr);
      continue;
    }
    write_member(tar, *size, fs::path(folder) / *member);
    missing.erase(member);
  }
  if (!missing.empty())
    throw DataError(fmt::format("{}: '{}' is not in the archive", archive, missing[0]));
}

}  // namespace tessera
