// The convolutions on Eigen: how they are cut into tasks, from the shape alone, and the depthwise
// ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/runtime/integers.h"

namespace tessera {

// Tasks worth their while: up to 32, so that 16 threads find work and two each even out, and not
// below 2^18 products, about 5 microseconds of one core, about what waking a thread takes.
inline int64_t eigen_tasks(const ConvShape& s) {
  return std::clamp<int64_t>(s.weights() * s.pixels() / (1 << 18), 1, 32);
}

// Rows of dx that one task makes, in the input gradient: whole images, or an image in bands of 24
// pixels or more.
struct EigenBands {
  int64_t per_image, rows;

  explicit EigenBands(const ConvShape& s) {
    const int64_t most = std::clamp<int64_t>(s.h * s.w / 24, 1, std::max<int64_t>(1, s.h));
    per_image = std::clamp<int64_t>(ceil_div(eigen_tasks(s), std::max<int64_t>(1, s.n)), 1, most);
    rows = std::max<int64_t>(1, ceil_div(s.h, per_image));
    per_image = ceil_div(s.h, rows);
  }
};

// Runs of the pixels that make partial sums in the gradient of the filters, where its own parts are
// too few tasks. The sums take 8 MB at most: memory that is written and read once more.
inline int64_t eigen_runs(const ConvShape& s, int64_t parts, int64_t blocks, DType dtype) {
  const int64_t bytes = std::max<int64_t>(1, s.weights() * bytes_of(dtype));
  const int64_t runs =
      std::min(ceil_div(eigen_tasks(s), std::max<int64_t>(1, parts)), (8 << 20) / bytes);
  return std::clamp<int64_t>(runs, 1, std::max<int64_t>(1, blocks));
}

// Depthwise convolutions (groups == c == o) on Eigen's arrays: nothing but sums of products,
// channel by channel, for a row of pixels and a tap at a time. All three passes are one loop over
// what is multiplied and where it is added.
std::unique_ptr<AnyConvolution> make_eigen_depthwise(const ConvRequest& request);

}  // namespace tessera
