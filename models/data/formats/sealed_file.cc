#include "tessera/models/data/formats/sealed_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <zlib.h>

namespace tessera {

namespace {

constexpr size_t kDigits = sizeof("tessera crc32 ") - 1;

uint32_t crc_of(const std::byte* bytes, size_t count, uint32_t before = 0) {
  return static_cast<uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes), count));
}

void write_seal(uint32_t crc, char* seal) {
  char text[kSealBytes + 1];
  std::snprintf(text, sizeof(text), "tessera crc32 %08x\n", crc);
  std::memcpy(seal, text, kSealBytes);
}

}  // namespace

void make_seal(std::span<const std::byte> bytes, std::span<char, kSealBytes> seal) noexcept {
  write_seal(crc_of(bytes.data(), bytes.size()), seal.data());
}

FileError write_sealed(FileSystem& files, const char* path,
                       std::span<const std::byte> image) noexcept {
  std::span<const std::byte> parts[] = {image, {}};
  return write_sealed(files, path, parts);
}

FileError write_sealed(FileSystem& files, const char* path,
                       std::span<std::span<const std::byte>> parts) noexcept {
  uint32_t crc = 0;
  for (const std::span<const std::byte>& part : parts)
    if (!part.empty()) crc = crc_of(part.data(), part.size(), crc);
  char seal[kSealBytes];
  write_seal(crc, seal);
  parts.back() = std::as_bytes(std::span(seal));
  return write_durably(files, path, parts);
}

bool seal_holds(const ByteSource& file, bool& sealed) {
  char found[kSealBytes], right[kSealBytes];
  sealed = false;
  if (file.size() < kSealBytes) return false;
  const uint64_t end = file.size() - kSealBytes;
  file.read(end, found, kSealBytes);
  uint32_t crc = 0;
  write_seal(crc, right);
  sealed = std::memcmp(found, right, kDigits) == 0;
  if (!sealed) return false;
  std::byte part[size_t{1} << 14];
  for (uint64_t at = 0; at < end;) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(sizeof(part), end - at));
    file.read(at, part, count);
    crc = crc_of(part, count, crc);
    at += count;
  }
  write_seal(crc, right);
  return std::memcmp(found, right, kSealBytes) == 0;
}

}  // namespace tessera
