#include "tessera/engine/finite_cuda.h"
#include "tessera/layers/optimizer_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    lr_if_finite(const T* lr, const int32_t* flags, int32_t count, T* out) {
  int found = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) found |= flags[i];
  found = block_or<kThreads>(found, dynamic_shared<int>());
  if (threadIdx.x == 0) *out = found != 0 ? static_cast<T>(NAN) : *lr;
}

}  // namespace

void lr_if_finite_cuda(CudaContext& where, Buffers in, const Buffer& out, Buffer scratch) {
  CudaDeviceGuard guard(where.index());
  auto* flags = scratch.as<int32_t>();
  flag_non_finite(where, in.subspan(1), flags);
  int32_t count = 0;
  for (const Buffer& x : in.subspan(1)) count += FiniteParts(x.elements()).count;
  visit_float(out.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch("lr_if_finite", lr_if_finite<T>, 1, kThreads, block_values<kThreads>() * sizeof(int),
           where.cuda_stream(), in[0].as<const T>(), flags, count, out.as<T>());
  });
}

}  // namespace tessera
