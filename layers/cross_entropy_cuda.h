// The CUDA kernels of cross_entropy over memory of the device; defined only in builds with CUDA.
// They give what those of the CPU (cross_entropy_cpu.h) give, NaN for labels out of range included.
#pragma once

#include "tessera/layers/cross_entropy_cpu.h"

namespace tessera {

class CudaContext;

// rows: scratch, n values.
template <class T>
void cross_entropy_loss_cuda(CudaContext& where, const CrossEntropyCase<T>& in, T* loss,
                             double* rows);
template <class T>
void cross_entropy_logits_grad_cuda(CudaContext& where, const CrossEntropyCase<T>& in,
                                    const T* d_loss, T* d_logits);
template <class T>
void cross_entropy_targets_grad_cuda(CudaContext& where, const CrossEntropyCase<T>& in,
                                     const T* d_loss, T* d_targets);

}  // namespace tessera
