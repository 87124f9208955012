// The updates of `count` elements: g the gradients, p the parameters, the others the states.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/layers/optimizers/optimizer_params.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

// What optimizers do with one element, on every device. The functions are static, as the linker
// would merge those that it finds compiled for several instruction sets.

template <class T>
struct SgdRates {
  T rate, decay, momentum;
};

template <class T>
TESSERA_HOST_DEVICE static inline void sgd_element(const SgdRates<T>& s, T g, T& p) {
  p -= s.rate * (g + s.decay * p);
}

template <bool kNesterov, class T>
TESSERA_HOST_DEVICE static inline void sgd_element(const SgdRates<T>& s, T g, T& p, T& b) {
  const T slope = g + s.decay * p;
  const T buffer = s.momentum * b + slope;
  b = buffer;
  p -= s.rate * (kNesterov ? slope + s.momentum * buffer : buffer);
}

// The numbers of one step and one tensor. `decay`: what the gradient gets of the parameter where
// decay is coupled, else what is kept of the parameter.
template <class T>
struct AdamWRates {
  T decay, mix1, beta2, mix2, rate, root, epsilon;
};

template <class T>
TESSERA_HOST_DEVICE static inline AdamWRates<T> adamw_rates(const AdamWParams& params, double decay,
                                                            double lr, double t) {
  return {static_cast<T>(params.coupled ? decay : 1 - lr * decay),
          static_cast<T>(1 - params.beta1),
          static_cast<T>(params.beta2),
          static_cast<T>(1 - params.beta2),
          static_cast<T>(lr / (1 - std::pow(params.beta1, t))),
          static_cast<T>(std::sqrt(1 - std::pow(params.beta2, t))),
          static_cast<T>(params.epsilon)};
}

template <bool kCoupled, class T>
TESSERA_HOST_DEVICE static inline void adamw_element(const AdamWRates<T>& s, T slope, T& p, T& m,
                                                     T& v) {
  const T g = kCoupled ? slope + s.decay * p : slope;
  const T first = m + s.mix1 * (g - m);
  const T second = s.beta2 * v + s.mix2 * (g * g);
  m = first;
  v = second;
  p = (kCoupled ? p : p * s.decay) - s.rate * (first / (std::sqrt(second) / s.root + s.epsilon));
}

template <class T>
struct OptimizerMicrokernelsOf {
  void (*sgd)(const SgdRates<T>& rates, const T* g, int64_t count, T* p);
  void (*momentum)(const SgdRates<T>& rates, const T* g, int64_t count, T* p, T* b);
  void (*nesterov)(const SgdRates<T>& rates, const T* g, int64_t count, T* p, T* b);
  // By whether decay is coupled.
  void (*adamw[2])(const AdamWRates<T>& rates, const T* g, int64_t count, T* p, T* m, T* v);
};

struct OptimizerMicrokernels {
  OptimizerMicrokernelsOf<float> f32;
  OptimizerMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_MICROKERNELS(OptimizerMicrokernels, optimizer_microkernels)

}  // namespace tessera
