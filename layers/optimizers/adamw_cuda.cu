#include "tessera/layers/optimizers/updates_cuda.h"
#include "tessera/layers/shared/kernels_cuda.h"

namespace tessera {
namespace {

// One thread finds the rates: powers of doubles are slow, and all threads of a block need the same.
template <class T, bool kCoupled, int kMost>
__global__ void __launch_bounds__(kUpdateThreads)
    update(const __grid_constant__ Updates<T, 2, kMost> updates, const AdamWParams params,
           const int64_t* t) {
  const auto part = part_to_update(updates);
  auto* shared = dynamic_shared<AdamWRates<T>>();
  __syncthreads();  // of what part_to_update() had there
  if (threadIdx.x == 0)
    *shared = adamw_rates<T>(params, part.tensor.decay, part.lr * part.tensor.lr_factor,
                             static_cast<double>(*t));
  __syncthreads();
  const AdamWRates<T> rates = *shared;
  update_part(part, [&](T g, T& p, T* states) {
    adamw_element<kCoupled>(rates, g, p, states[0], states[1]);
  });
}

template <class T, bool kCoupled>
void update_all(CudaContext& where, const AdamWParams& params, const AdamWBuffers& tensors,
                const int32_t* flags) {
  static_assert(sizeof(AdamWRates<T>) <= kUpdateShared);
  for_tables(tensors.parameters.size(), [&](auto size, size_t first, size_t count) {
    const auto entry = [&](size_t k) {
      auto tensor = updated<T, 2>(tensors, first + k, params);
      tensor.states[0] = tensors.m[first + k].as<T>();
      tensor.states[1] = tensors.v[first + k].as<T>();
      return tensor;
    };
    flags +=
        launch_updates<T, 2, size>("adamw_update", update<T, kCoupled, size>, where, count,
                                   tensors.lr, flags, entry, params, tensors.t.as<const int64_t>());
  });
}

}  // namespace

void adamw_update_cuda(CudaContext& where, const AdamWParams& params, const AdamWBuffers& tensors,
                       Buffer scratch) {
  CudaDeviceGuard guard(where.index());
  auto* flags = scratch.as<int32_t>();
  flag_non_finite(where, tensors.gradients, flags);
  visit_float(tensors.parameters[0].spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (params.coupled)
      update_all<T, true>(where, params, tensors, flags);
    else
      update_all<T, false>(where, params, tensors, flags);
  });
}

}  // namespace tessera
