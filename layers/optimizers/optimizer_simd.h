// The updates of `count` elements: g the gradients, p the parameters, a and b as many states as the
// rule has.
#pragma once

#include <cstdint>

#include "tessera/layers/optimizers/optimizer_elements.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

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
