// The update of SGD on a GPU, defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/layers/optimizer_params.h"
#include "tessera/layers/shared/optimizer_elements.h"

namespace tessera {

// The tensors of one call, all of one dtype; `momentum` is empty without. Parameters and momentum
// become their next versions. Scratch: finite_scratch() of the gradients.
struct SgdBuffers {
  Buffers parameters, gradients, momentum;
  Buffer lr;
  std::span<const ParameterScale> scales;
};
void sgd_update_cuda(CudaContext& where, const SgdParams& params, const SgdBuffers& tensors,
                     Buffer scratch);

}  // namespace tessera
