// What the ops of optimizers share.
#pragma once

#include <algorithm>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/op.h"
#include "tessera/layers/optimizers/optimizer_params.h"
#include "tessera/layers/optimizers/optimizer_simd.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {

// An op that updates params.tensors parameters together. Inputs: the parameters, as many gradients,
// Derived::kScalars scalars, and as many of each state; outputs: the next parameters and states.
template <class Derived>
class JoinedUpdate : public OpBase<Derived> {
 public:
  int updates(int output) const override {
    return output < tensors() ? output : output + tensors() + Derived::kScalars;
  }
  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::cpu || kCuda; }
  std::vector<Algorithm> algorithms(std::span<const TensorSpec> in,
                                    const Target& target) const override {
    if (target.device.is_cpu()) return {{}};
    const auto n = static_cast<size_t>(tensors());
    return {{.scratch_bytes = finite_scratch(in.subspan(n, n))}};
  }

 protected:
  // Elements of all parameters.
  int64_t updated(std::span<const TensorSpec> in) const {
    int64_t elements = 0;
    for (const TensorSpec& x : in.first(static_cast<size_t>(tensors())))
      elements += x.shape.elements();
    return elements;
  }

 private:
  int tensors() const { return static_cast<const Derived*>(this)->params.tensors; }
};

template <class T>
const OptimizerMicrokernelsOf<T>& optimizer_microkernels_for() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(optimizer_microkernels));
}

// The only element of a float32 or float64 buffer.
inline double read_scalar(const Buffer& buffer) {
  return buffer.spec.dtype == DType::f64 ? *buffer.as<double>() : double{*buffer.as<float>()};
}

// One parameter's factor of the learning rate, and its weight decay.
template <class Params>
ParameterScale scale_of(const Params& params, const TensorSpec& parameter,
                        const ParameterScale& own) {
  const bool is_vector = parameter.shape.rank() <= 1;
  return {own.lr * (is_vector ? params.vector_lr : 1),
          is_vector && !params.decay_vectors ? 0 : own.decay * params.weight_decay};
}

// Calls range(first, last) for blocks of [0, count), cut by the count alone.
template <class F>
void for_ranges(ThreadPool& pool, int64_t count, F&& range) {
  constexpr int64_t kBlock = 16384, kAtOnce = 8;  // elements of a vector
  pool.parallel_for((count + kBlock - 1) / kBlock, count / kAtOnce, [&](int64_t block) {
    range(block * kBlock, std::min(count, (block + 1) * kBlock));
  });
}

}  // namespace tessera
