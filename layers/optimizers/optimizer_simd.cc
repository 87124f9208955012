#include "tessera/layers/optimizers/optimizer_simd.h"

namespace tessera {
namespace {

template <class T, class Rule>
void update(const Rule& rule, const T* __restrict g, int64_t count, T* __restrict p,
            T* __restrict a, T* __restrict b) {
  const Rule s = rule;
  for (int64_t k = 0; k < count; ++k) {
    T states[2] = {};
    if constexpr (Rule::kStates > 0) states[0] = a[k];
    if constexpr (Rule::kStates > 1) states[1] = b[k];
    update_element(s, g[k], p[k], states);
    if constexpr (Rule::kStates > 0) a[k] = states[0];
    if constexpr (Rule::kStates > 1) b[k] = states[1];
  }
}

template <class T>
constexpr OptimizerMicrokernelsOf<T> microkernels_of() {
  return {update<T>, update<T>, update<T>, update<T>, update<T>};
}

}  // namespace

namespace TESSERA_ISA {
const OptimizerMicrokernels optimizer_microkernels = {microkernels_of<float>(),
                                                      microkernels_of<double>()};
}  // namespace TESSERA_ISA

}  // namespace tessera
