// The CUDA kernels of slice and its gradient; defined only in builds with CUDA.
#pragma once

#include "tessera/layers/slice.h"

namespace tessera {

void slice_cuda(CudaContext& where, const SliceParams& box, const Buffer& x, const Buffer& y);
// x: the shape of what was sliced, of which dx is the gradient.
void slice_grad_cuda(CudaContext& where, const SliceParams& box, const Shape& x, const Buffer& dy,
                     const Buffer& dx);

}  // namespace tessera
