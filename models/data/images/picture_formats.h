// The decoders of the picture formats. Internal to this folder.
#pragma once

#include "tessera/models/data/images/picture.h"

namespace tessera::picture {

// Returns the orientation in an EXIF block (TIFF, without the leading "Exif\0\0"), or 1.
int exif_orientation(std::span<const uint8_t> tiff);

// Throws DataError if a side is below 1 or the picture has more than limits.pixels.
void check_size(const std::string& name, int64_t width, int64_t height,
                const PictureLimits& limits);

[[noreturn]] void fail(const std::string& name, const std::string& why);

// The decoder of a format; for the arguments see probe_picture() and decode_picture().
struct Decoder {
  Picture (*probe)(std::span<const uint8_t> bytes, const std::string& name,
                   const PictureLimits& limits);
  void (*decode)(std::span<const uint8_t> bytes, const std::string& name, int shrink, RowSink& sink,
                 std::vector<uint8_t>& scratch, const PictureLimits& limits);
};
extern const Decoder kJpeg, kPng, kWebp;

}  // namespace tessera::picture
