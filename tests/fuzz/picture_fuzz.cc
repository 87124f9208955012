// Any bytes are refused with a DataError, or are a picture whose rows match the header, at every
// size that an image folder requests.
#include <vector>

#include "tessera/models/data/images/picture.h"
#include "tessera/models/data/images/resample.h"
#include "tessera/runtime/error.h"

namespace {

class Rows : public tessera::RowSink {
 public:
  void begin(int width, int height) override {
    if (width < 1 || height < 1) __builtin_trap();
    width_ = width, height_ = height;
    resampler_.start({0, double(height), 7, 0, 7}, {0, double(width), 7, 1, 5}, 3, out_);
  }
  bool row(const uint8_t* rgb) override {
    if (y_ >= height_) __builtin_trap();
    resampler_.row(y_++, rgb);
    return true;
  }
  void finish() { resampler_.finish(); }
  int width_ = 0, height_ = 0, y_ = 0;

 private:
  tessera::Resampler resampler_;
  uint8_t out_[7 * 5 * 3];
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tessera;
  const PictureLimits limits{.pixels = 1 << 14, .file_bytes = 1 << 20, .scans = 8};
  std::vector<uint8_t> scratch;
  try {
    Picture picture = probe_picture({bytes, size}, "fuzz", limits);
    if (int64_t{picture.width} * picture.height > limits.pixels) __builtin_trap();
    int shrink = 1 << (size % 4);
    Rows rows;
    decode_picture({bytes, size}, "fuzz", shrink, rows, scratch, limits);
    auto left = [&](int side) { return (side + shrink - 1) / shrink; };
    bool whole = rows.width_ == picture.width && rows.height_ == picture.height;
    bool shrunk = rows.width_ == left(picture.width) && rows.height_ == left(picture.height);
    if (rows.y_ != rows.height_ || !(whole || shrunk)) __builtin_trap();
    rows.finish();
  } catch (const DataError&) {
  }
  return 0;
}
