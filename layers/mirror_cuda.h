// mirror() on a GPU; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

void mirror_cuda(CudaContext& where, const Buffer& x, const Buffer& y);

}  // namespace tessera
