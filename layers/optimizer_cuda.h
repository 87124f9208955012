// lr_if_finite() on a GPU; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

// in: lr, then what has to be finite; their flags (engine/finite_cuda.h) stand in scratch.
void lr_if_finite_cuda(CudaContext& where, Buffers in, const Buffer& out, Buffer scratch);
// in: lr, the gradient; its flags stand in scratch.
void update_gate_cuda(CudaContext& where, Buffers in, const Buffer& out, Buffer scratch);

// counter + 1, unless lr is not finite.
void count_up_cuda(CudaContext& where, const Buffer& counter, const Buffer& lr);

}  // namespace tessera
