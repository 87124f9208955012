// The CUDA kernels of layer norm that go along rows, over memory of the device; defined only in
// builds with CUDA. Those across rows are in shared/channel_blocks_cuda.h.
#pragma once

#include <cstdint>

namespace tessera {

class CudaContext;

// x [rows, c] -> the mean and 1 / deviation of each row
template <class T>
void layer_moments_cuda(CudaContext& where, int64_t rows, int64_t c, double eps, const T* x,
                        T* mean, T* inverse);
// For each row the means over c of dy gamma and of dy gamma xhat.
template <class T>
void layer_gradient_means_cuda(CudaContext& where, int64_t rows, int64_t c, const T* dy, const T* x,
                               const T* gamma, const T* mean, const T* inverse, T* first,
                               T* second);

}  // namespace tessera
