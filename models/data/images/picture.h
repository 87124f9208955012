// Decoders of JPEG, PNG and WebP pictures: rows of red, green, blue. A picture is an encoded file,
// an image is decoded bytes. Files are untrusted: every size is checked before memory is allocated,
// and every fault is a DataError that names the picture.
//
//   JPEG   baseline and progressive; gray, YCbCr, RGB, CMYK and YCCK become RGB (CMYK as Adobe
//          writes it, inverted). Data that end too early or do not decode are an error.
//   PNG    every colour type; palettes are looked up, 16 bits lose the lower eight, alpha is
//          dropped (the colour under it stays).
//   WebP   lossy and lossless, no animations; alpha is dropped. Needs libwebp when it is read.
//   all    the EXIF orientation is read and left to the caller; colour profiles are not applied.
//
// Thread-safe. Decoders allocate their own memory and free it when they are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

struct PictureLimits {
  int64_t pixels = 100'000'000;  // width x height
  int64_t file_bytes = 256 << 20;
  int scans = 100;  // maximum in a progressive JPEG; each takes as long as a whole picture
};

// The header of a picture.
struct Picture {
  int width = 0, height = 0;  // size in the file, before orientation is applied
  int orientation = 1;        // EXIF's, 1 to 8; 1 if it is missing or invalid
  bool gray = false;          // stored without colour
  size_t decode_bytes = 0;    // approximate memory of a decoder, in addition to
  size_t scratch_bytes = 0;   // that of decode_picture()'s scratch
  // The size of the upright picture.
  int shown_width() const { return orientation >= 5 ? height : width; }
  int shown_height() const { return orientation >= 5 ? width : height; }
};

// Receives the rows of a picture from top to bottom.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Called once, before any row.
  virtual void begin(int width, int height) = 0;
  // Takes rgb [width x 3]. Returns false if the rows below are not needed.
  virtual bool row(const uint8_t* rgb) = 0;
};

// Throws DataError if the name ends in .webp, in any case, and libwebp is missing.
void require_decoder(const std::string& path);

// Reads the header. Errors call the picture `name`.
Picture probe_picture(std::span<const uint8_t> bytes, const std::string& name,
                      const PictureLimits& limits = {});

// Decodes the picture as stored. If shrink is 2, 4 or 8, a JPEG may be decoded at 1 / shrink of its
// sides, rounded up, which is faster; others never are. scratch grows as needed.
void decode_picture(std::span<const uint8_t> bytes, const std::string& name, int shrink,
                    RowSink& sink, std::vector<uint8_t>& scratch, const PictureLimits& limits = {});

struct PixelCoordinate {
  int y, x;
};
// Returns where pixel (y, x) of the upright picture is in the stored one of height x width.
PixelCoordinate stored_pixel(int orientation, int height, int width, int y, int x);

// Reads all bytes of a regular file. Throws DataError, also for a link, a pipe or a device.
void read_regular_file(const std::string& path, int64_t max_bytes, std::vector<uint8_t>& bytes);
// Returns the seconds that the calling thread has spent in read_regular_file().
double file_seconds();

}  // namespace tessera
