// matmul: the product of two matrices, or of many pairs; either may be transposed as it is read.
//
//   y [m, n] = op(a) op(b),   op(a) [m, k], op(b) [k, n]
//
// a is stored [m, k], or [k, m] with transpose_a; b is stored [k, n], or [n, k] with transpose_b.
// Further axes come first and count the pairs, a [.., m, k], b [.., k, n], y [.., m, n]; they are
// broadcast as in numpy, so one matrix may be multiplied with many.
//
// A vector a is one row and a vector b one column, whatever transpose_a and transpose_b are; y has
// no axis for it. The product of two vectors is the dot product, shape [].
//
// y has the promoted dtype of a and b (engine/dtype.h); sums are float32 or, for float64, that.
// Two matrices of the same 16 bits are multiplied as they are (float16 on the CPU: in float32), and
// so are their gradients.
// Both gradients are matmuls. Throws ShapeError if a or b has no axis, or the inner sizes differ.
//
// In a compiled step a pointwise op that reads the product is fused as an epilogue: on the CPU any,
// on a GPU only the addition of a bias along the last axis, by the algorithm that computes the
// product alone. ReLU stays a separate op there, because NVIDIA does not say how cuBLASLt's ReLU
// treats NaN. Ours keeps NaN, so that a diverged network is noticed. A bias before a ReLU is
// computed with the ReLU.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

struct MatmulParams {
  bool transpose_a = false;
  bool transpose_b = false;
  bool float32_result = false;  // instead of 16 bits
  bool operator==(const MatmulParams&) const = default;
};

Tensor matmul(const Tensor& a, const Tensor& b, MatmulParams params = {});

}  // namespace tessera
