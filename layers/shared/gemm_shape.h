// The sizes of a matrix product of row-major, dense matrices:
//
//   C [m, n] = op(A) op(B) (+ C if accumulate),  op(A) is m x k, op(B) is k x n
//
// op is the matrix itself, or its transpose where the flag says so (A is then stored [k, m], B
// [n, k]).
#pragma once

#include <cstdint>

namespace tessera {

struct GemmShape {
  int64_t m = 0, n = 0, k = 0;  // k = 0 gives zeros (or leaves C as it is)
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  // add to C instead of writing it
  bool operator==(const GemmShape&) const = default;
};

}  // namespace tessera
