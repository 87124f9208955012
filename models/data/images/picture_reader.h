// PictureReader: reads picture files as images: cropped, scaled and upright.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/images/picture.h"
#include "tessera/models/data/images/resample.h"

namespace tessera {

// A part of a picture and the pixels it becomes, in coordinates of the upright picture ("shown").
struct WantedPart {
  ResampleAxis rows, columns;
  bool may_reduce = true;  // a JPEG much larger than the result may be decoded at reduced size
};

// Returns the centre crop, height x width, of the picture scaled to cover resize x resize (0:
// height x width), as torchvision's Resize and CenterCrop do. Evaluation uses it; docs/inference.md
// has the rule in numbers. Requires resize >= height, width unless 0.
WantedPart middle_of(int shown_height, int shown_width, int height, int width, int resize = 0);

// The size and orientation of a picture in its file.
struct StoredPicture {
  int32_t width = 0, height = 0, orientation = 1;
};

// The maximum needs of some pictures, for which a PictureReader reserves memory.
struct PictureNeeds {
  int64_t file_bytes = 0, decode_bytes = 0, scratch_bytes = 0;
  int side = 0;  // the longest side
  void cover(const PictureNeeds& other);
};

// Reads one picture at a time. Not thread-safe.
class PictureReader : private RowSink {
 public:
  // Allocates the memory for pictures that need no more than `needs`.
  void reserve(const PictureNeeds& needs, int size, int channels);
  size_t bytes() const;

  // Writes `shown` as [rows x columns x channels]; channels is 1 or 3. Throws DataError.
  void read(const std::string& path, const StoredPicture& stored, const WantedPart& shown,
            int channels, uint8_t* out, const PictureLimits& limits = {});
  // Reads the middle_of() a picture of any size, as evaluation does.
  void read_middle(const std::string& path, const ImageShape& shape, int resize, uint8_t* out,
                   const PictureLimits& limits = {});

 private:
  void decode(const std::string& path, const StoredPicture& stored, const WantedPart& shown,
              int channels, uint8_t* out, const PictureLimits& limits);
  void begin(int width, int height) override;
  bool row(const uint8_t* rgb) override;
  void turn(int orientation, int height, int width, uint8_t* out) const;

  std::vector<uint8_t> bytes_, rows_, gray_, rotated_;
  Resampler resampler_;
  WantedPart wanted_;
  StoredPicture stored_;
  const std::string* path_ = nullptr;
  uint8_t* target_ = nullptr;
  int shrink_ = 1, y_ = 0, width_ = 0, channels_ = 3;
};

}  // namespace tessera
