// The CUDA kernels of channel_blocks.h over memory of the device, float and double; defined only in
// builds with CUDA.
#pragma once

#include "tessera/layers/shared/channel_blocks.h"

namespace tessera {

template <class T>
void block_moments_cuda(CudaContext& where, ChannelBlocks blocks, int64_t c, const T* x,
                        T* moments);
// stats_stride: elements from one block's mean to the next, 0 or c
template <class T>
void block_gradient_sums_cuda(CudaContext& where, ChannelBlocks blocks, int64_t c, const T* dy,
                              const T* x, const T* mean, const T* scale, int64_t stats_stride,
                              T* sums);
// The same where every row has a mean and a scale of its own.
template <class T>
void row_gradient_sums_cuda(CudaContext& where, ChannelBlocks blocks, int64_t c, const T* dy,
                            const T* x, const T* mean, const T* scale, T* sums);
template <class T>
void fold_blocks_cuda(CudaContext& where, int64_t blocks, int64_t c, const T* sums, T* first,
                      T* second);

}  // namespace tessera
