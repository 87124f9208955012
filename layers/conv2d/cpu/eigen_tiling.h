// Tiling of the Eigen convolutions into tasks, from the shape alone, and the depthwise ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/runtime/integers.h"

namespace tessera {

// Returns the number of tasks: up to 32, two for each of 16 threads to balance the load. A task has
// at least 2^18 products, which one core computes in about 5 microseconds, the time to wake a
// thread.
inline int64_t eigen_tasks(const ConvShape& s) {
  return std::clamp<int64_t>(s.weights() * s.pixels() / (1 << 18), 1, 32);
}

// The rows of dx that a task of the input gradient computes: an image, or a band of an image with
// 24 pixels or more.
struct EigenBands {
  int64_t per_image, rows;

  explicit EigenBands(const ConvShape& s) {
    const int64_t most = std::clamp<int64_t>(s.h * s.w / 24, 1, std::max<int64_t>(1, s.h));
    per_image = std::clamp<int64_t>(ceil_div(eigen_tasks(s), std::max<int64_t>(1, s.n)), 1, most);
    rows = std::max<int64_t>(1, ceil_div(s.h, per_image));
    per_image = ceil_div(s.h, rows);
  }
};

// Returns the number of runs of pixels that have their own partial sums in the gradient of the
// filters: more than 1 if `parts` is too few tasks. The sums take at most 8 MB, as they are written
// and read once more.
inline int64_t eigen_runs(const ConvShape& s, int64_t parts, int64_t blocks, DType dtype) {
  const int64_t bytes = std::max<int64_t>(1, s.weights() * bytes_of(dtype));
  const int64_t runs =
      std::min(ceil_div(eigen_tasks(s), std::max<int64_t>(1, parts)), (8 << 20) / bytes);
  return std::clamp<int64_t>(runs, 1, std::max<int64_t>(1, blocks));
}

// Returns a depthwise convolution (groups == c == o) on Eigen's arrays: sums of products, channel
// by channel, for a row of pixels and a tap at a time. All three passes share one loop.
std::unique_ptr<AnyConvolution> make_eigen_depthwise(const ConvRequest& request);

}  // namespace tessera
