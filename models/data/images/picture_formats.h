// The decoder of each picture format. Internal to this folder.
#pragma once

#include "tessera/models/data/images/picture.h"

namespace tessera::picture {

// Returns the orientation in an EXIF block (TIFF, without the leading "Exif\0\0"), or 1.
int exif_orientation(std::span<const uint8_t> tiff);

// Throws DataError if a side is below 1 or the picture has more than limits.pixels.
void check_size(const std::string& name, int64_t width, int64_t height,
                const PictureLimits& limits);

[[noreturn]] void fail(const std::string& name, const std::string& why);

Picture probe_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                   const PictureLimits& limits);
void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, int shrink, RowSink& sink,
                 std::vector<uint8_t>& scratch, const PictureLimits& limits);

Picture probe_png(std::span<const uint8_t> bytes, const std::string& name,
                  const PictureLimits& limits);
void decode_png(std::span<const uint8_t> bytes, const std::string& name, RowSink& sink,
                std::vector<uint8_t>& scratch, const PictureLimits& limits);

Picture probe_webp(std::span<const uint8_t> bytes, const std::string& name,
                   const PictureLimits& limits);
void decode_webp(std::span<const uint8_t> bytes, const std::string& name, RowSink& sink,
                 std::vector<uint8_t>& scratch, const PictureLimits& limits);

}  // namespace tessera::picture
