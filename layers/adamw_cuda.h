// The numbers of a step of AdamW, and its update on a GPU, which is defined only in builds with
// CUDA.
#pragma once

#include <cmath>

#include "tessera/engine/op.h"
#include "tessera/layers/optimizer_params.h"
#include "tessera/layers/shared/optimizer_elements.h"

namespace tessera {

template <class T>
TESSERA_HOST_DEVICE inline AdamWRates<T> adamw_rates(const AdamWParams& params, double decay,
                                                     double lr, double t) {
  return {static_cast<T>(params.coupled ? decay : 1 - lr * decay),
          static_cast<T>(1 - params.beta1),
          static_cast<T>(params.beta2),
          static_cast<T>(1 - params.beta2),
          static_cast<T>(lr / (1 - std::pow(params.beta1, t))),
          static_cast<T>(std::sqrt(1 - std::pow(params.beta2, t))),
          static_cast<T>(params.epsilon)};
}

// The tensors of one call, all of one dtype. Parameters, m and v become their next versions.
// Scratch: finite_scratch() of the gradients.
struct AdamWBuffers {
  Buffers parameters, gradients, m, v;
  Buffer lr, t;
  std::span<const ParameterScale> scales;
};
void adamw_update_cuda(CudaContext& where, const AdamWParams& params, const AdamWBuffers& tensors,
                       Buffer scratch);

}  // namespace tessera
