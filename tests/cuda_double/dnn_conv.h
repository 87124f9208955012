// The convolutions of the double of cuDNN: computed in double, in one order.
#pragma once

#include <cstdint>
#include <vector>

#include <cudnn_graph.h>

namespace cuda_double {

enum class ConvPass : int64_t { forward, input, filter };

struct ConvTensor {
  int64_t id = 0, type = CUDNN_DATA_FLOAT, alignment = 1;
  int64_t dims[4] = {}, strides[4] = {};  // n, c, h, w; for a filter: out, in, h, w
  int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

struct Conv {
  ConvPass pass = ConvPass::forward;
  int64_t before[2] = {}, behind[2] = {}, dilation[2] = {1, 1}, stride[2] = {1, 1};
  bool flipped = false;  // the mathematical convolution
  double alpha = 1, beta = 0;
  ConvTensor x, w, y;
  int64_t groups() const { return w.dims[1] == 0 ? 1 : x.dims[1] / w.dims[1]; }
  const ConvTensor& result() const {
    return pass == ConvPass::forward ? y : pass == ConvPass::input ? x : w;
  }
  bool fits() const;  // true if the shapes agree
};

bool known_type(int64_t type);
void run_conv(const Conv& conv, void* x, void* w, void* y);
// Computes in float, with sums that begin at `first`.
void run_conv_in_any_order(const Conv& conv, void* x, void* w, void* y, int64_t first);

}  // namespace cuda_double
