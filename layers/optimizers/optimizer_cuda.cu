#include "tessera/engine/finite_cuda.h"
#include "tessera/layers/optimizers/updates_cuda.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

__global__ void count_up(int64_t* counter, const void* lr, bool lr_is_double) {
  const double rate = read_lr(lr, lr_is_double);
  if (rate - rate == 0) ++*counter;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    lr_if_finite(const T* lr, const int32_t* flags, int32_t count, T* out) {
  int found = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) found |= flags[i];
  found = block_or<kThreads>(found, dynamic_shared<int>());
  if (threadIdx.x == 0) *out = found != 0 ? static_cast<T>(NAN) : *lr;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    update_gate(const void* lr, bool lr_is_double, const int32_t* flags, int32_t count, T* out,
                unsigned long long* refused) {
  const double rate = read_lr(lr, lr_is_double);
  int found = rate - rate != 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) found |= flags[i];
  found = block_or<kThreads>(found, dynamic_shared<int>());
  if (threadIdx.x != 0) return;
  *out = found != 0 ? T(0) : T(1);
  if (found != 0) atomicAdd(refused, 1ull);
}

}  // namespace

void update_gate_cuda(CudaContext& where, Buffers in, const Buffer& out, Buffer scratch) {
  CudaDeviceGuard guard(where.index());
  auto* flags = scratch.as<int32_t>();
  flag_non_finite(where, in.subspan(1), flags);
  const int32_t count = FiniteParts(in[1].elements()).count;
  visit_float(out.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch("update_gate", update_gate<T>, 1, kThreads, block_values<kThreads>() * sizeof(int),
           where.cuda_stream(), in[0].data, in[0].spec.dtype == DType::f64, flags, count,
           out.as<T>(), reinterpret_cast<unsigned long long*>(where.refused_counter()));
  });
}

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

void count_up_cuda(CudaContext& where, const Buffer& counter, const Buffer& lr) {
  CudaDeviceGuard guard(where.index());
  launch("count_up", count_up, 1, 1, 0, where.cuda_stream(), counter.as<int64_t>(), lr.data,
         lr.spec.dtype == DType::f64);
}

}  // namespace tessera
