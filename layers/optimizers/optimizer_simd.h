// SGD and AdamW: the update of one element, on every device, and of many on the CPU. A rule holds
// the scalars of one tensor's step. The functions are static, as the linker would merge those that
// are compiled for several instruction sets.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/layers/optimizers/optimizer_params.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

enum class SgdMode { plain, momentum, nesterov };

template <class T, SgdMode kMode>
struct SgdRule {
  static constexpr int kStates = kMode == SgdMode::plain ? 0 : 1;
  T rate, decay, momentum;
};

// `decay` multiplies the parameter: if kCoupled, the product is added to the gradient; else it
// replaces the parameter.
template <class T, bool kCoupled>
struct AdamWRule {
  static constexpr int kStates = 2;
  T decay, mix1, beta2, mix2, rate, root, epsilon;
};

// Sets the rule. decay and lr are the tensor's own; t counts the steps from 1, unused by SGD.
template <class T, SgdMode kMode>
TESSERA_HOST_DEVICE static inline void set_rule(SgdRule<T, kMode>& rule, const SgdParams& params,
                                                double decay, double lr, double /*t*/) {
  rule = {static_cast<T>(lr), static_cast<T>(decay), static_cast<T>(params.momentum)};
}

template <class T, bool kCoupled>
TESSERA_HOST_DEVICE static inline void set_rule(AdamWRule<T, kCoupled>& rule,
                                                const AdamWParams& params, double decay, double lr,
                                                double t) {
  rule = {static_cast<T>(kCoupled ? decay : 1 - lr * decay),
          static_cast<T>(1 - params.beta1),
          static_cast<T>(params.beta2),
          static_cast<T>(1 - params.beta2),
          static_cast<T>(lr / (1 - std::pow(params.beta1, t))),
          static_cast<T>(std::sqrt(1 - std::pow(params.beta2, t))),
          static_cast<T>(params.epsilon)};
}

template <class T, SgdMode kMode>
TESSERA_HOST_DEVICE static inline void update_element(const SgdRule<T, kMode>& s, T g, T& p,
                                                      T* states) {
  T grad = g + s.decay * p;
  if constexpr (kMode != SgdMode::plain) {
    states[0] = s.momentum * states[0] + grad;
    grad = kMode == SgdMode::nesterov ? grad + s.momentum * states[0] : states[0];
  }
  p -= s.rate * grad;
}

template <class T, bool kCoupled>
TESSERA_HOST_DEVICE static inline void update_element(const AdamWRule<T, kCoupled>& s, T grad, T& p,
                                                      T* states) {
  const T g = kCoupled ? grad + s.decay * p : grad;
  T &m = states[0], &v = states[1];
  m = m + s.mix1 * (g - m);
  v = s.beta2 * v + s.mix2 * (g * g);
  p = (kCoupled ? p : p * s.decay) - s.rate * (m / (std::sqrt(v) / s.root + s.epsilon));
}

// Updates `count` elements: gradients g, parameters p, and the rule's states, up to two, a and b.
template <class T, class Rule>
using UpdateKernel = void (*)(const Rule& rule, const T* g, int64_t count, T* p, T* a, T* b);

template <class T>
struct OptimizerMicrokernelsOf {
  UpdateKernel<T, SgdRule<T, SgdMode::plain>> sgd;
  UpdateKernel<T, SgdRule<T, SgdMode::momentum>> momentum;
  UpdateKernel<T, SgdRule<T, SgdMode::nesterov>> nesterov;
  UpdateKernel<T, AdamWRule<T, false>> adamw;
  UpdateKernel<T, AdamWRule<T, true>> adam;
};

struct OptimizerMicrokernels {
  OptimizerMicrokernelsOf<float> f32;
  OptimizerMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_MICROKERNELS(OptimizerMicrokernels, optimizer_microkernels)

}  // namespace tessera
