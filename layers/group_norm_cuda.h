// The small CUDA kernels of group norm over memory of the device; defined only in builds with CUDA.
#pragma once

#include <cstdint>

namespace tessera {

class CudaContext;

struct GroupShape {
  int64_t n, c, groups, pixels;
};

// moments [n, 2, c] of each channel -> mean, 1 / deviation of its group: [n, c] each
template <class T>
void group_norm_finalise_cuda(CudaContext& where, const GroupShape& shape, double eps,
                              const T* moments, T* mean, T* inverse);
// sums [n, 2, c] of dy and dy xhat, gamma [c] -> the means over its group of dy gamma and dy gamma
// xhat: [n, c] each
template <class T>
void group_norm_grad_means_cuda(CudaContext& where, const GroupShape& shape, const T* sums,
                                const T* gamma, T* first, T* second);

}  // namespace tessera
