// The native matrix product on the CPU over raw memory, float and double, for AVX2 and AVX-512
// (has_native_kernels()). Scratch is 64-byte aligned, gemm_scratch() bytes, a few MB at most.
// Results depend on the shape and the instruction set alone, never on the number of threads.
#pragma once

#include <cstddef>

#include "tessera/engine/dtype.h"
#include "tessera/layers/shared/gemm_shape.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// Bytes of scratch; `threads` is the size of the pool.
size_t gemm_scratch(const GemmShape& shape, DType dtype, int threads);

template <class T>
void gemm(ThreadPool& pool, const GemmShape& shape, const T* a, const T* b, T* c, void* scratch);

}  // namespace tessera
