// The CUDA kernel of concat; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

inline constexpr int kMostConcat = 32;  // tensors

// Each of the inputs is [outer, something], and so is y, which has them side by side.
void concat_cuda(CudaContext& where, int64_t outer, Buffers in, const Buffer& y);

}  // namespace tessera
