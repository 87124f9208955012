// Resampler: scales images up or down, row by row as they are decoded.
//
// Antialiased bilinear: each pixel of the result is a weighted mean of the source. The weights are
// a triangle whose half width is one source pixel, or one pixel of the result if that is larger.
// Each row is scaled first, then each column, rounded to bytes after each pass. Weights are integer
// multiples of 2^-22, so sums are exact in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

// One direction: the source from begin to begin + size (in pixels, with fractions) becomes `total`
// pixels, of which [first, first + count) are computed.
struct ResampleAxis {
  double begin = 0, size = 0;
  int total = 0, first = 0, count = 0;
  bool operator==(const ResampleAxis&) const = default;
};

// Keeps its tables between pictures, so that it soon allocates nothing. Not thread-safe.
class Resampler {
 public:
  // Allocates the memory for sources of up to largest_side pixels a side and such a result.
  void reserve(int largest_side, int channels, int out_height, int out_width);
  // Begins one picture; finish() writes out [rows.count x columns.count x channels].
  void start(const ResampleAxis& rows, const ResampleAxis& columns, int channels, uint8_t* out);
  // Adds source row y, in rising order; rows outside the part may be left out.
  void row(int y, const uint8_t* pixels);
  // Returns the last source row that the result needs.
  int last_row() const { return last_row_; }
  // Rounds the result into out.
  void finish();
  size_t bytes() const;

 private:
  struct Span {
    int begin, count, weights;  // weights: index of the first
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
  std::vector<int32_t> sums_;  // one for each byte of the result
};

// Scales `part` of the image in [from] to out [to], both dense.
void resize_image(Resampler& resampler, const ImageShape& from, const Box& part, const uint8_t* in,
                  const ImageShape& to, uint8_t* out);

}  // namespace tessera
