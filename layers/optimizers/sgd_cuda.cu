#include "tessera/layers/optimizers/updates_cuda.h"
#include "tessera/layers/shared/kernels_cuda.h"

namespace tessera {
namespace {

enum class Momentum { none, plain, nesterov };

constexpr int states_of(Momentum mode) { return mode == Momentum::none ? 0 : 1; }

template <class T, Momentum kMode, int kMost>
__global__ void __launch_bounds__(kUpdateThreads)
    update(const __grid_constant__ Updates<T, states_of(kMode), kMost> updates, const T momentum) {
  const auto part = part_to_update(updates);
  const SgdRates<T> rates{static_cast<T>(part.lr * part.tensor.lr_factor),
                          static_cast<T>(part.tensor.decay), momentum};
  update_part(part, [&](T g, T& p, T* states) {
    if constexpr (kMode == Momentum::none)
      sgd_element(rates, g, p);
    else
      sgd_element<kMode == Momentum::nesterov>(rates, g, p, states[0]);
  });
}

template <class T, Momentum kMode>
void update_all(CudaContext& where, const SgdParams& params, const SgdBuffers& tensors,
                const int32_t* flags) {
  constexpr int kStates = states_of(kMode);
  for_tables(tensors.parameters.size(), [&](auto size, size_t first, size_t count) {
    const auto entry = [&](size_t k) {
      auto tensor = updated<T, kStates>(tensors, first + k, params);
      if constexpr (kStates > 0) tensor.states[0] = tensors.momentum[first + k].as<T>();
      return tensor;
    };
    flags +=
        launch_updates<T, kStates, size>("sgd_update", update<T, kMode, size>, where, count,
                                         tensors.lr, flags, entry, static_cast<T>(params.momentum));
  });
}

}  // namespace

void sgd_update_cuda(CudaContext& where, const SgdParams& params, const SgdBuffers& tensors,
                     Buffer scratch) {
  CudaDeviceGuard guard(where.index());
  auto* flags = scratch.as<int32_t>();
  flag_non_finite(where, tensors.gradients, flags);
  visit_float(tensors.parameters[0].spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (params.momentum == 0)
      update_all<T, Momentum::none>(where, params, tensors, flags);
    else if (params.nesterov)
      update_all<T, Momentum::nesterov>(where, params, tensors, flags);
    else
      update_all<T, Momentum::plain>(where, params, tensors, flags);
  });
}

}  // namespace tessera
