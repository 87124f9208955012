// The CUDA kernels of softmax; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

// y may be x.
void softmax_cuda(CudaContext& where, bool logarithm, const Buffer& x, const Buffer& y);
// dx may be dy or y.
void softmax_grad_cuda(CudaContext& where, bool logarithm, const Buffer& dy, const Buffer& y,
                       const Buffer& dx);

}  // namespace tessera
