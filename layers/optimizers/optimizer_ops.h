// Helpers of the ops and kernels of optimizers.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/layers/optimizers/optimizer_params.h"
#include "tessera/layers/optimizers/optimizer_simd.h"

namespace tessera {

// Returns the only element of a float32 or float64 buffer.
inline double read_scalar(const Buffer& buffer) {
  return buffer.spec.dtype == DType::f64 ? *buffer.as<double>() : double{*buffer.as<float>()};
}

// Returns a parameter's factor of the learning rate, and its weight decay.
template <class Params>
ParameterScale scale_of(const Params& params, const TensorSpec& parameter,
                        const ParameterScale& own) {
  const bool is_vector = parameter.shape.rank() <= 1;
  return {own.lr * (is_vector ? params.vector_lr : 1),
          is_vector && !params.decay_vectors ? 0 : own.decay * params.weight_decay};
}

// Calls f(rule, kernel) with the rule type of `params`, not filled in, and its member of
// OptimizerMicrokernelsOf<T>.
template <class T, class F>
void with_rule(const SgdParams& params, F&& f) {
  using Kernels = OptimizerMicrokernelsOf<T>;
  if (params.momentum == 0) return f(SgdRule<T, SgdMode::plain>(), &Kernels::sgd);
  if (params.nesterov) return f(SgdRule<T, SgdMode::nesterov>(), &Kernels::nesterov);
  f(SgdRule<T, SgdMode::momentum>(), &Kernels::momentum);
}
template <class T, class F>
void with_rule(const AdamWParams& params, F&& f) {
  using Kernels = OptimizerMicrokernelsOf<T>;
  if (params.coupled) return f(AdamWRule<T, true>(), &Kernels::adam);
  f(AdamWRule<T, false>(), &Kernels::adamw);
}

// The tensors of one call, all of one dtype; unused `states` are empty. Parameters and states are
// updated in place.
struct UpdateBuffers {
  Buffers parameters, gradients, states[2];
  Buffer lr, t;  // t: AdamW only
  std::span<const ParameterScale> scales;
};
// Updates them on a GPU; defined only in builds with CUDA. Requires scratch of finite_scratch() of
// the gradients.
void update_cuda(CudaContext& ctx, const SgdParams& params, const UpdateBuffers& tensors,
                 Buffer scratch);
void update_cuda(CudaContext& ctx, const AdamWParams& params, const UpdateBuffers& tensors,
                 Buffer scratch);

}  // namespace tessera
