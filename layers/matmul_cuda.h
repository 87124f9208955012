// matmul on a GPU, through cuBLASLt; defined only in builds with CUDA.
#pragma once

#include "tessera/layers/matmul.h"

namespace tessera {

// The kernel for a and b, float32 or float64. A third input is added to the product along its last
// axis: `bias` is a program of the product and that input. It has `scratch` bytes to work in, which
// may be none, and chooses the library's algorithm by them here.
std::unique_ptr<Kernel> matmul_cuda(const MatmulParams& params, const ScalarProgram& bias,
                                    std::span<const TensorSpec> in, const TensorSpec& out,
                                    size_t scratch, Context& where);

}  // namespace tessera
