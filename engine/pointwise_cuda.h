// Scalar programs as CUDA kernels; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

// How an input is read for element i of the output: x[(i / repeat) % period + (i / sample) stride].
struct PointwiseRead {
  int64_t repeat = 1, period = 1, sample = 1, stride = 0;
  bool operator==(const PointwiseRead&) const = default;
};

// As the pointwise op reads its inputs.
std::unique_ptr<Kernel> pointwise_cuda(const ScalarProgram& program,
                                       std::span<const TensorSpec> in);
// An output of `total` elements.
std::unique_ptr<Kernel> pointwise_cuda(const ScalarProgram& program, DType dtype, int64_t total,
                                       std::span<const PointwiseRead> reads);

}  // namespace tessera
