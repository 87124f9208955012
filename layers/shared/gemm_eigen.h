// The matrix product of gemm_cpu.h computed by Eigen: the same meaning, scratch of its own size.
// C is cut into tiles by its shape alone; each is one thread's, from zero to the end of its sums.
#pragma once

#include "tessera/engine/dtype.h"
#include "tessera/layers/shared/gemm_shape.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

size_t eigen_gemm_scratch(const GemmShape& shape, DType dtype, int threads);

template <class T>
void eigen_gemm(ThreadPool& pool, const GemmShape& shape, const T* a, const T* b, T* c,
                void* scratch);

}  // namespace tessera
