// Makes pictures larger or smaller, row by row as they come.
//
// Each pixel of the result is a weighted mean of the source: a triangle (bilinear) whose half width
// is one source pixel, or one pixel of the result where that is larger, so that shrinking averages
// instead of skipping. First along rows, then along columns, rounded to bytes after each; weights
// are whole multiples of 2^-22, so the sums are exact and their order does not matter.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

// One direction: the source from begin to begin + size (in pixels, and parts of them) becomes
// `total` pixels, of which those [first, first + count) are wanted.
struct ResampleAxis {
  double begin = 0, size = 0;
  int total = 0, first = 0, count = 0;
  bool operator==(const ResampleAxis&) const = default;
};

// Not thread-safe; keeps its tables from one picture to the next, so that it soon allocates no
// more.
class Resampler {
 public:
  // Takes the memory for pictures of up to so many pixels a side, and for such a result.
  void reserve(int largest_side, int channels, int out_height, int out_width);
  // Gets ready for the rows of one picture; out [rows.count x columns.count x channels].
  void start(const ResampleAxis& rows, const ResampleAxis& columns, int channels, uint8_t* out);
  // Source row y, in rising order; rows outside the part may be left out.
  void row(int y, const uint8_t* pixels);
  // The last row that matters.
  int last_row() const { return last_row_; }
  // Rounds the result into out.
  void finish();
  size_t bytes() const;

 private:
  struct Span {
    int begin, count, weights;  // weights: where they begin
  };
  struct Table {
    ResampleAxis axis;
    std::vector<Span> spans;
    std::vector<int32_t> weights;
    void fill(const ResampleAxis& wanted);
  };
  Table rows_, columns_;
  int channels_ = 0, last_row_ = 0, first_open_ = 0;
  uint8_t* out_ = nullptr;
  std::vector<uint8_t> line_;  // one source row, as wide as the result
  std::vector<int32_t> sums_;  // of the result
};

// The whole image [from] into out [to], both dense.
void resize_image(Resampler& resampler, const ImageShape& from, const Box& part, const uint8_t* in,
                  const ImageShape& to, uint8_t* out);

}  // namespace tessera
