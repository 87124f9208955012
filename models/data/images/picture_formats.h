// Inside picture.cc: one decoder for each format. Not for others.
#pragma once

#include "tessera/models/data/images/picture.h"

namespace tessera::picture {

// The orientation in a TIFF block as EXIF has it (without the leading "Exif\0\0"), or 1.
int exif_orientation(std::span<const uint8_t> tiff);

// Throws DataError unless the sides can be.
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

}  // namespace tessera::picture
