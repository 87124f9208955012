// The small CUDA kernels of batch norm over memory of the device; defined only in builds with CUDA.
#pragma once

#include "tessera/layers/batch_norm_cpu.h"

namespace tessera {

template <class T>
void batch_norm_finalise_cuda(CudaContext& where, ChannelBlocks blocks, int64_t c, double eps,
                              const T* moments, T* mean, T* inverse_deviation, T* variance);

// running = (1 - momentum) old + momentum batch for both, each [c]. Where a value of the batch is
// not finite, both stay as they are and the update counts as refused.
template <class T>
struct BatchNormRunning {
  const T *old_mean, *old_variance, *mean, *variance;
  T *running_mean, *running_variance;
};
template <class T>
void batch_norm_update_cuda(CudaContext& where, double momentum, int64_t c,
                            const BatchNormRunning<T>& of);

template <class T>
void batch_norm_grad_finalise_cuda(CudaContext& where, int64_t blocks, int64_t rows, int64_t c,
                                   const T* sums, const T* gamma, const T* inverse_deviation,
                                   const BatchNormGradOut<T>& out);

}  // namespace tessera
