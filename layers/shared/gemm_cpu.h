// Matrix products on the CPU over raw memory, float and double: native ones for AVX2 and AVX-512
// (has_native_kernels()), and Eigen's. Scratch is 64-byte aligned, a few MB at most. Results depend
// on the shape and the instruction set alone, never on the number of threads.
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
// op is the matrix itself, or its transpose where the flag says so (A is then stored [k, m], B
// [n, k]).
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;  // k = 0 gives zeros (or leaves C as it is)
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  // add to C instead of writing it
  bool operator==(const GemmShape&) const = default;
};

// Bytes of scratch; `threads` is the size of the pool.
size_t gemm_scratch(const GemmShape& shape, DType dtype, int threads);

template <class T>
void gemm(ThreadPool& pool, const GemmShape& shape, const T* a, const T* b, T* c, void* scratch);

// Computes the product by Eigen. C is cut into tiles by its shape alone; each is one thread's, from
// zero to the end of its sums.
size_t eigen_gemm_scratch(const GemmShape& shape, DType dtype, int threads);

template <class T>
void eigen_gemm(ThreadPool& pool, const GemmShape& shape, const T* a, const T* b, T* c,
                void* scratch);

}  // namespace tessera
