// Pictures at the size that a network is given: read from files, cut, scaled and turned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/images/picture.h"
#include "tessera/models/data/images/resample.h"

namespace tessera {

// A part of a picture and what becomes of it; as shown, that is with the picture upright.
struct WantedPart {
  ResampleAxis rows, columns;
  bool may_reduce = true;  // a JPEG much larger than the result may be decoded at reduced size
};

// The whole picture scaled until it covers height x width, of which the middle is cut out: how
// images are made for evaluation, as torchvision's Resize and CenterCrop do; docs/inference.md has
// the rule in numbers.
WantedPart middle_of(int shown_height, int shown_width, int height, int width);

// How a picture lies in its file.
struct StoredPicture {
  int32_t width = 0, height = 0, orientation = 1;
};

// What pictures need of whoever decodes them, at most.
struct PictureNeeds {
  int64_t file_bytes = 0, decode_bytes = 0;
  int side = 0;  // the longest
  void cover(const PictureNeeds& other);
};

// Brings pictures to size, one at a time. Not thread-safe.
class PictureReader : private RowSink {
 public:
  // Memory ahead of time for pictures that need no more than this.
  void reserve(const PictureNeeds& needs, int size, int channels);
  size_t bytes() const;

  // Writes [rows x columns x channels] of `shown`, channels being 1 or 3. Throws DataError.
  void read(const std::string& path, const StoredPicture& stored, const WantedPart& shown,
            int channels, uint8_t* out, const PictureLimits& limits = {});
  // A file of any size: its middle, as images are evaluated.
  void read_middle(const std::string& path, const ImageShape& shape, uint8_t* out,
                   const PictureLimits& limits = {});

 private:
  void decode(const std::string& path, const StoredPicture& stored, const WantedPart& shown,
              int channels, uint8_t* out, const PictureLimits& limits);
  void begin(int width, int height) override;
  bool row(const uint8_t* rgb) override;
  void turn(int orientation, int height, int width, uint8_t* out) const;

  std::vector<uint8_t> bytes_, rows_, gray_, turned_;
  Resampler resampler_;
  WantedPart wanted_;
  StoredPicture stored_;
  const std::string* path_ = nullptr;
  uint8_t* target_ = nullptr;
  int shrink_ = 1, y_ = 0, width_ = 0, channels_ = 3;
};

}  // namespace tessera
