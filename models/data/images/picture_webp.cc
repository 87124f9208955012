// The WebP decoder, by libwebp, which is loaded when the first WebP picture is read: no build needs
// it. https://developers.google.com/speed/webp/docs/riff_container
#include <cstring>
#include <filesystem>

#include <dlfcn.h>
#include <strings.h>

#include "tessera/models/data/images/picture_formats.h"

namespace tessera::picture {

namespace {

// The functions of webp/decode.h that are used; unchanged since version 0.2 of 2012.
struct LibWebp {
  int (*info)(const uint8_t* data, size_t bytes, int* width, int* height) = nullptr;
  uint8_t* (*decode)(const uint8_t* data, size_t bytes, uint8_t* rgb, size_t size,
                     int stride) = nullptr;

  LibWebp() {
    void* library = dlopen("libwebp.so.7", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) library = dlopen("libwebp.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return;
    info = reinterpret_cast<decltype(info)>(dlsym(library, "WebPGetInfo"));
    decode = reinterpret_cast<decltype(decode)>(dlsym(library, "WebPDecodeRGBInto"));
  }
  bool is_there() const { return info != nullptr && decode != nullptr; }
};

const LibWebp& libwebp(const std::string& name) {
  static const LibWebp library;
  if (!library.is_there())
    fail(name,
         "a WebP picture needs libwebp, which is not here; on Debian: apt-get install libwebp7");
  return library;
}

// Returns the orientation in the chunk "EXIF"; 1 without one.
int orientation_of(std::span<const uint8_t> bytes) {
  constexpr size_t kRiff = 12, kChunk = 8;
  for (size_t at = kRiff; at + kChunk <= bytes.size();) {
    const uint8_t* chunk = bytes.data() + at;
    const size_t size =
        size_t{chunk[4]} | size_t{chunk[5]} << 8 | size_t{chunk[6]} << 16 | size_t{chunk[7]} << 24;
    at += kChunk;
    if (size > bytes.size() - at) break;
    std::span<const uint8_t> exif = bytes.subspan(at, size);
    if (std::memcmp(chunk, "EXIF", 4) == 0) {
      constexpr size_t kPrefix = 6;  // some programs write JPEG's
      if (size > kPrefix && std::memcmp(exif.data(), "Exif\0\0", kPrefix) == 0)
        exif = exif.subspan(kPrefix);
      return exif_orientation(exif);
    }
    at += size + size % 2;
  }
  return 1;
}

}  // namespace

Picture probe_webp(std::span<const uint8_t> bytes, const std::string& name,
                   const PictureLimits& limits) {
  Picture picture;
  if (libwebp(name).info(bytes.data(), bytes.size(), &picture.width, &picture.height) == 0)
    fail(name, "libwebp cannot read its header");
  check_size(name, picture.width, picture.height, limits);
  picture.orientation = orientation_of(bytes);
  const size_t pixels = static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height);
  picture.decode_bytes = 4 * pixels, picture.scratch_bytes = 3 * pixels;
  return picture;
}

void decode_webp(std::span<const uint8_t> bytes, const std::string& name, RowSink& sink,
                 std::vector<uint8_t>& scratch, const PictureLimits& limits) {
  const Picture picture = probe_webp(bytes, name, limits);
  const size_t row = static_cast<size_t>(picture.width) * 3;
  const size_t size = picture.scratch_bytes;
  if (scratch.size() < size) scratch.resize(size);
  if (libwebp(name).decode(bytes.data(), bytes.size(), scratch.data(), size,
                           static_cast<int>(row)) == nullptr)
    fail(name, "libwebp cannot decode it: the file is damaged, or an animation");
  sink.begin(picture.width, picture.height);
  for (int y = 0; y < picture.height; ++y)
    if (!sink.row(scratch.data() + static_cast<size_t>(y) * row)) return;
}

}  // namespace tessera::picture

namespace tessera {

void require_decoder(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (strcasecmp(ending.c_str(), ".webp") == 0) picture::libwebp(path);
}

}  // namespace tessera
