// The updates of `count` elements: g the gradients, p the parameters, the others the states.
#pragma once

#include <cstdint>

#include "tessera/layers/optimizers/optimizer_elements.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

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
