// Matrix products on the CPU over raw memory: native ones for AVX2 and AVX-512
// (has_native_kernels()), of float, double and pairs of bfloat16, and Eigen's, of float and double.
// Scratch is 64-byte aligned, a few MB at most. Results depend only on the shape and the
// instruction set, not on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// The sizes of a matrix product of row-major, dense matrices:
//
//   C [m, n] = op(A) op(B) (+ C if accumulate),  op(A) is m x k, op(B) is k x n
//
// op is the identity, or the transpose if the flag is set (A is then stored [k, m], B [n, k]).
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;  // k = 0 gives zeros (or leaves C unchanged)
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  // add to C instead of writing it
  bool operator==(const GemmShape&) const = default;
};

using ProductTypes = TypeList<float, double, bfloat16>;  // gemm() takes these

// Returns the bytes of scratch for a pool of `threads`.
size_t gemm_scratch(const GemmShape& shape, DType dtype, int threads);

// C is of float32 if T is bfloat16, as all sums. Denormal numbers count as 0 there.
template <class T>
void gemm(ThreadPool& pool, const GemmShape& shape, const T* a, const T* b, Computed<T>* c,
          void* scratch);

// Computes the product with Eigen. C is cut into tiles by its shape alone; one thread computes all
// sums of a tile.
size_t eigen_gemm_scratch(const GemmShape& shape, DType dtype, int threads);

template <class T>
void eigen_gemm(ThreadPool& pool, const GemmShape& shape, const T* a, const T* b, T* c,
                void* scratch);

}  // namespace tessera
