// The CUDA kernels of pooling over memory of the device, float and double; defined only in builds
// with CUDA. They give the bits of those of the CPU (pool2d_cpu.h), but for the global average,
// which is summed in another order.
#pragma once

#include "tessera/layers/shared/pool_windows.h"

namespace tessera {

class CudaContext;

// positions may be null.
template <class T>
void max_pool2d_cuda(CudaContext& where, const PoolShape& shape, const T* x, T* y,
                     uint8_t* positions);
template <class T>
void max_pool2d_grad_cuda(CudaContext& where, const PoolShape& shape, const T* dy,
                          const uint8_t* positions, T* dx);
template <class T>
void average_pool2d_cuda(CudaContext& where, const PoolShape& shape, const T* x, T* y);
template <class T>
void average_pool2d_grad_cuda(CudaContext& where, const PoolShape& shape, const T* dy, T* dx);

// x [n, pixels, c], y [n, c]
template <class T>
void global_average_pool_cuda(CudaContext& where, int64_t n, int64_t pixels, int64_t c, const T* x,
                              T* y);
template <class T>
void global_average_pool_grad_cuda(CudaContext& where, int64_t n, int64_t pixels, int64_t c,
                                   const T* dy, T* dx);

}  // namespace tessera
