// matmul: the product of two matrices, either of them transposed as it is read, or of many pairs.
//
//   y [m, n] = op(a) op(b),   op(a) [m, k], op(b) [k, n]
//
// a is stored [m, k], or [k, m] with transpose_a; b is stored [k, n], or [n, k] with transpose_b.
// Further axes come first and count the pairs, a [.., m, k], b [.., k, n], y [.., m, n]; they are
// broadcast as numpy's are, so that one matrix may stand against many.
//
// A vector a is one row and a vector b one column, whatever transpose_a and transpose_b say; y has
// no axis for it. Of two vectors y is the dot product, shape [].
//
// Both float32 or both float64. Both gradients are matmuls. Throws ShapeError if a or b has no
// axis, or the inner sizes differ.
//
// In a compiled step a pointwise op that reads the product is computed with it: on the CPU any, on
// a GPU the sum with a bias along the last axis, by the algorithm that computes the product alone.
// ReLU stays a step of its own there: NVIDIA does not say what cuBLASLt's makes of NaN, and ours
// keeps it, so that a network that has diverged is noticed. With it goes a bias that stands before
// it.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

struct MatmulParams {
  bool transpose_a = false;
  bool transpose_b = false;
  bool operator==(const MatmulParams&) const = default;
};

Tensor matmul(const Tensor& a, const Tensor& b, MatmulParams params = {});

}  // namespace tessera
