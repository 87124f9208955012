#include "tessera/layers/optimizers/optimizer_simd.h"

namespace tessera {
namespace {

template <class T>
void sgd(const SgdRates<T>& rates, const T* __restrict g, int64_t count, T* __restrict p) {
  const SgdRates<T> s = rates;
  for (int64_t k = 0; k < count; ++k) sgd_element(s, g[k], p[k]);
}

template <bool kNesterov, class T>
void momentum(const SgdRates<T>& rates, const T* __restrict g, int64_t count, T* __restrict p,
              T* __restrict b) {
  const SgdRates<T> s = rates;
  for (int64_t k = 0; k < count; ++k) sgd_element<kNesterov>(s, g[k], p[k], b[k]);
}

template <bool kCoupled, class T>
void adamw(const AdamWRates<T>& rates, const T* __restrict g, int64_t count, T* __restrict p,
           T* __restrict m, T* __restrict v) {
  const AdamWRates<T> s = rates;
  for (int64_t k = 0; k < count; ++k) adamw_element<kCoupled>(s, g[k], p[k], m[k], v[k]);
}

template <class T>
constexpr OptimizerMicrokernelsOf<T> microkernels_of() {
  return {sgd<T>, momentum<false, T>, momentum<true, T>, {adamw<false, T>, adamw<true, T>}};
}

}  // namespace

namespace TESSERA_ISA {
const OptimizerMicrokernels optimizer_microkernels = {microkernels_of<float>(),
                                                      microkernels_of<double>()};
}  // namespace TESSERA_ISA

}  // namespace tessera
