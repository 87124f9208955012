// matmul: the product of two matrices, either of them transposed as it is read, or of many pairs.
//
//   y [m, n] = op(a) op(b),   op(a) [m, k], op(b) [k, n]
//
// a is stored [m, k], or [k, m] with transpose_a; b is stored [k, n], or [n, k] with transpose_b.
// Further axes come first and count the pairs, a [.., m, k], b [.., k, n], y [.., m, n]; they are
// broadcast as numpy's are, so that one matrix may stand against many.
// Both float32 or both float64. Both gradients are matmuls. Throws ShapeError when a or b has fewer
// than two axes, or the inner sizes differ.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

struct MatmulParams {
  bool transpose_a = false;
  bool transpose_b = false;
  bool operator==(const MatmulParams&) const = default;
};

Tensor matmul(const Tensor& a, const Tensor& b, MatmulParams params = {});

// The CUDA kernel (matmul_cuda.cc, in builds with CUDA) for a and b, float32 or float64, its
// algorithm chosen here. Its scratch holds kMatmulCudaScratch bytes, for the library's split sums.
inline constexpr size_t kMatmulCudaScratch = size_t{4} << 20;
std::unique_ptr<Kernel> matmul_cuda(const MatmulParams& params, std::span<const TensorSpec> in,
                                    Context& where);

}  // namespace tessera
