// Matrix product on the CPU over raw memory, row-major and dense, float and double:
//
//   C [m, n] = op(A) op(B) (+ C if accumulate),  op(A) is m x k, op(B) is k x n
//
// op is the matrix itself, or its transpose where the flag says so (A is then stored [k, m], B
// [n, k]). Scratch as in conv2d_kernels.h: 64-byte aligned, gemm_scratch() bytes, a few MB at most.
// Results depend on the shape and the instruction set alone, never on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/runtime/thread_pool.h"

namespace tessera {

struct GemmShape {
  int64_t m = 0, n = 0, k = 0;  // k = 0 gives zeros (or leaves C as it is)
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  // add to C instead of writing it
  bool operator==(const GemmShape&) const = default;
};

// Bytes of scratch; `element` is sizeof(float) or sizeof(double), `threads` the size of the pool.
size_t gemm_scratch(const GemmShape& shape, size_t element, int threads);

template <class T>
void gemm(ThreadPool& pool, const GemmShape& shape, const T* a, const T* b, T* c, void* scratch);

}  // namespace tessera
