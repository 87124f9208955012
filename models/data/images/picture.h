// JPEG and PNG pictures as rows of red, green, blue. The bytes come from strangers: every size is
// checked before memory is taken, and whatever is wrong is a DataError that names the picture.
//
//   JPEG   baseline and progressive; gray, YCbCr, RGB, CMYK and YCCK become RGB (CMYK as Adobe
//          writes it, inverted). Data that end too early or do not decode are damage, not gray.
//   PNG    every colour type; palettes are looked up, 16 bits lose the lower eight, alpha is
//          dropped (the colour under it stays).
//   both   the EXIF orientation is read and left to the caller; colour profiles are not applied.
//
// Thread-safe; the decoders' own memory is taken while they work and given back.
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
  int scans = 100;  // of a progressive JPEG: each costs the time of a whole one
};

// What the header says.
struct Picture {
  int width = 0, height = 0;  // as stored, before turning
  int orientation = 1;        // EXIF's, 1 to 8; 1 where none is given or it makes no sense
  bool gray = false;          // stored without colours
  size_t decode_bytes = 0;    // what a decoder takes while it works, about
  // As shown.
  int shown_width() const { return orientation >= 5 ? height : width; }
  int shown_height() const { return orientation >= 5 ? width : height; }
};

// Gets a picture from top to bottom.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Once, before any row.
  virtual void begin(int width, int height) = 0;
  // rgb [width x 3]. False: the rows below are not needed.
  virtual bool row(const uint8_t* rgb) = 0;
};

// Reads the header. `name` is what errors call the picture.
Picture probe_picture(std::span<const uint8_t> bytes, const std::string& name,
                      const PictureLimits& limits = {});

// Decodes, as stored. shrink 1, 2, 4 or 8: a JPEG may be decoded so many times smaller (its sides
// divided, rounded up), which is faster; a PNG never is. scratch is made as large as needed.
void decode_picture(std::span<const uint8_t> bytes, const std::string& name, int shrink,
                    RowSink& sink, std::vector<uint8_t>& scratch, const PictureLimits& limits = {});

// Where pixel (y, x) of a shown picture stands in the stored one of height x width.
struct PixelCoordinate {
  int y, x;
};
PixelCoordinate stored_pixel(int orientation, int height, int width, int y, int x);

// A whole picture as shown, for tools and tests: [height x width x 3].
struct Pixels {
  int height = 0, width = 0;
  std::vector<uint8_t> rgb;
};
Pixels load_picture(const std::string& path, const PictureLimits& limits = {});

// All bytes of a regular file. Throws DataError; also for a link, a pipe or a device in its place.
void read_regular_file(const std::string& path, int64_t max_bytes, std::vector<uint8_t>& bytes);
// Returns the seconds that this thread has spent in read_regular_file().
double file_seconds();

}  // namespace tessera
