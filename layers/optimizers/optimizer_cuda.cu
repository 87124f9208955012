#include <cstddef>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/table_cuda.h"
#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

// One launch updates many tensors, each as a whole or not at all, as the flags of
// engine/kernels_cuda.h say.
namespace tessera {
namespace {

constexpr int kUpdateThreads = 256;
constexpr size_t kUpdateShared = 64;  // bytes: flags of the warps, then free for the kernel
static_assert(kUpdateShared >= block_values<kUpdateThreads>() * sizeof(int));

__device__ double read_lr(const void* lr, bool is_double) {
  return is_double ? *static_cast<const double*>(lr)
                   : static_cast<double>(*static_cast<const float*>(lr));
}

template <class T, int kStates>
struct Updated {
  static constexpr int kSlots = kStates == 0 ? 1 : kStates;
  T* parameter;
  const T* gradient;
  T* states[kSlots];
  int64_t elements;
  int32_t part, first;  // FiniteParts::elements, the first block
  double decay, lr_factor;
};

template <class T, int kStates, int kMax>
struct Updates : TensorTable<Updated<T, kStates>, kMax> {
  const int32_t* flags;  // one for each block
  const void* lr;
  bool lr_is_double;
  unsigned long long* refused;
};

// The part of a tensor that a block updates.
template <class T, int kStates>
struct UpdatedPart {
  const Updated<T, kStates>& tensor;
  int64_t first;
  int count;  // 0 if the tensor stays unchanged
  double lr;
};

// Returns the part of this block. Requires a call by all threads of the block together.
template <class T, int kStates, int kMax>
__device__ UpdatedPart<T, kStates> part_to_update(const Updates<T, kStates, kMax>& updates) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  const Updated<T, kStates>& tensor = updates.of_block(block);
  const double lr = read_lr(updates.lr, updates.lr_is_double);
  int refused = lr - lr != 0;
  const int32_t last =
      tensor.first + static_cast<int32_t>(ceil_div<int64_t>(tensor.elements, tensor.part));
  for (int32_t k = tensor.first + static_cast<int32_t>(threadIdx.x); k < last; k += kUpdateThreads)
    refused |= updates.flags[k];
  refused = block_or<kUpdateThreads>(refused, dynamic_shared<int>());
  // The host only reads the counter; several tensors may be skipped at once.
  if (refused != 0 && block == tensor.first && threadIdx.x == 0) atomicAdd(updates.refused, 1ull);
  const int64_t first = int64_t{block - tensor.first} * tensor.part;
  const int64_t left = tensor.elements - first;
  const int count = static_cast<int>(left < tensor.part ? left : int64_t{tensor.part});
  return {tensor, first, refused != 0 ? 0 : count, lr};
}

// Calls step(gradient, parameter, states) for each element of the part; the last two are
// references.
template <class T, int kStates, class Step>
__device__ void update_part(const UpdatedPart<T, kStates>& part, Step step) {
  constexpr int N = kPack<T>, kSlots = Updated<T, kStates>::kSlots;
  T* p = part.tensor.parameter + part.first;
  const T* g = part.tensor.gradient + part.first;
  T* s[kSlots];
  bool packs = takes_packs<N>(p) && takes_packs<N>(g);
  for (int k = 0; k < kStates; ++k) {
    s[k] = part.tensor.states[k] + part.first;
    packs = packs && takes_packs<N>(s[k]);
  }
  const int done = packs ? part.count / N * N : 0;
  for (int i = static_cast<int>(threadIdx.x) * N; i < done; i += kUpdateThreads * N) {
    const Pack<T, N> grad = load_pack<N>(g + i);
    Pack<T, N> value = load_pack<N>(p + i), states[kSlots];
    for (int k = 0; k < kStates; ++k) states[k] = load_pack<N>(s[k] + i);
    for (int j = 0; j < N; ++j) {
      T own[kSlots];
      for (int k = 0; k < kStates; ++k) own[k] = states[k][j];
      step(grad[j], value[j], own);
      for (int k = 0; k < kStates; ++k) states[k][j] = own[k];
    }
    store_pack(p + i, value);
    for (int k = 0; k < kStates; ++k) store_pack(s[k] + i, states[k]);
  }
  for (int i = done + static_cast<int>(threadIdx.x); i < part.count; i += kUpdateThreads) {
    T own[kSlots];
    for (int k = 0; k < kStates; ++k) own[k] = s[k][i];
    step(g[i], p[i], own);
    for (int k = 0; k < kStates; ++k) s[k][i] = own[k];
  }
}

__global__ void increment_step(int64_t* counter, const void* lr, bool lr_is_double) {
  const double rate = read_lr(lr, lr_is_double);
  if (rate - rate == 0) ++*counter;
}

template <class T>
struct Scaled {
  const T* from;
  T* to;
  int64_t elements;
  int32_t part, first;  // FiniteParts::elements, the first block
};

template <class T, int kMax>
__global__ void __launch_bounds__(kThreads)
    scale_parts(const __grid_constant__ TensorTable<Scaled<T>, kMax> table, const T* factor) {
  constexpr int N = kPack<T>;
  const auto block = static_cast<int32_t>(blockIdx.x);
  const Scaled<T>& tensor = table.of_block(block);
  const int64_t first = int64_t{block - tensor.first} * tensor.part;
  const int64_t left = tensor.elements - first;
  const int count = static_cast<int>(left < tensor.part ? left : int64_t{tensor.part});
  const T *x = tensor.from + first, by = *factor;
  T* y = tensor.to + first;
  const int done = takes_packs<N>(x) && takes_packs<N>(y) ? count / N * N : 0;
  for (int i = static_cast<int>(threadIdx.x) * N; i < done; i += kThreads * N) {
    Pack<T, N> values = load_pack<N>(x + i);
    for (int k = 0; k < N; ++k) values[k] *= by;
    store_pack(y + i, values);
  }
  for (int i = done + static_cast<int>(threadIdx.x); i < count; i += kThreads) y[i] = x[i] * by;
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

// Returns entry k of a call, without its part and its first block.
template <class T, int kStates, class Params>
Updated<T, kStates> updated(const UpdateBuffers& tensors, size_t k, const Params& params) {
  const Buffer& p = tensors.parameters[k];
  const ParameterScale own = scale_of(params, p.spec, tensors.scales[k]);
  Updated<T, kStates> tensor{};
  tensor.parameter = p.as<T>();
  tensor.gradient = tensors.gradients[k].as<const T>();
  for (int s = 0; s < kStates; ++s) tensor.states[s] = tensors.states[s][k].as<T>();
  tensor.elements = p.elements();
  tensor.decay = own.decay;
  tensor.lr_factor = own.lr;
  return tensor;
}

// One thread computes the rule: powers of doubles are slow, and all threads of a block need the
// same rule.
template <class T, class Rule, int kMax, class Params>
__global__ void __launch_bounds__(kUpdateThreads)
    multi_tensor_update(const __grid_constant__ Updates<T, Rule::kStates, kMax> updates,
                        const Params params, const int64_t* t) {
  const auto part = part_to_update(updates);
  auto* shared = dynamic_shared<Rule>();
  __syncthreads();  // part_to_update() has used this memory
  if (threadIdx.x == 0)
    set_rule(*shared, params, part.tensor.decay, part.lr * part.tensor.lr_factor,
             t == nullptr ? 0 : static_cast<double>(*t));
  __syncthreads();
  const Rule rule = *shared;
  update_part(part, [&](T g, T& p, T* states) { update_element(rule, g, p, states); });
}

// Launches a block for each flag of `count` tensors from `first` on; returns the number of blocks.
template <class T, class Rule, int kMax, class Params>
int32_t launch_updates(const char* name, CudaContext& ctx, const Params& params,
                       const UpdateBuffers& tensors, size_t first, size_t count,
                       const int32_t* flags) {
  static_assert(sizeof(Rule) <= kUpdateShared);
  Updates<T, Rule::kStates, kMax> updates{};
  static_assert(sizeof(updates) + 2 * alignof(std::max_align_t) + sizeof(params) <=
                kMaxParameterBytes);
  updates.flags = flags;
  updates.lr = tensors.lr.data;
  updates.lr_is_double = tensors.lr.spec.dtype == DType::f64;
  updates.refused = reinterpret_cast<unsigned long long*>(ctx.skipped_counter());
  int32_t blocks = 0;
  for (size_t k = first; k < first + count; ++k) {
    auto tensor = updated<T, Rule::kStates>(tensors, k, params);
    const FiniteParts parts(tensor.elements);
    tensor.part = parts.elements;
    tensor.first = blocks;
    blocks += parts.count;
    updates.add(tensor);
  }
  launch(name, multi_tensor_update<T, Rule, kMax, Params>, static_cast<unsigned>(blocks),
         kUpdateThreads, kUpdateShared, ctx.cuda_stream(), updates, params,
         static_cast<const int64_t*>(tensors.t.data));
  return blocks;
}

template <class Params>
void update_all(const char* name, CudaContext& ctx, const Params& params,
                const UpdateBuffers& tensors, Buffer scratch) {
  CudaDeviceGuard guard(ctx.index());
  auto* flags = scratch.as<int32_t>();
  flag_non_finite(ctx, tensors.gradients, flags);
  visit_float(tensors.parameters[0].spec.dtype, [&]<class T>(T) {
    with_rule<T>(params, [&](auto rule, auto) {
      for_tables(tensors.parameters.size(), [&](auto size, size_t first, size_t count) {
        flags += launch_updates<T, decltype(rule), size>(name, ctx, params, tensors, first, count,
                                                         flags);
      });
    });
  });
}

}  // namespace

void scale_tensors_cuda(CudaContext& ctx, const Buffer& factor, Buffers in, Buffers out) {
  CudaDeviceGuard guard(ctx.index());
  visit_float(factor.spec.dtype, [&]<class T>(T) {
    for_tables(in.size(), [&](auto size, size_t first, size_t count) {
      TensorTable<Scaled<T>, size> table{};
      int32_t blocks = 0;
      for (size_t k = first; k < first + count; ++k) {
        const FiniteParts parts(in[k].elements());
        table.add({in[k].as<const T>(), out[k].as<T>(), in[k].elements(), parts.elements, blocks});
        blocks += parts.count;
      }
      launch("scale_tensors", scale_parts<T, size>, static_cast<unsigned>(blocks), kThreads, 0,
             ctx.cuda_stream(), table, factor.as<const T>());
    });
  });
}

void update_gate_cuda(CudaContext& ctx, Buffers in, const Buffer& out, Buffer scratch) {
  CudaDeviceGuard guard(ctx.index());
  auto* flags = scratch.as<int32_t>();
  flag_non_finite(ctx, in.subspan(1), flags);
  const int32_t count = FiniteParts(in[1].elements()).count;
  visit_float(out.spec.dtype, [&]<class T>(T) {
    launch("update_gate", update_gate<T>, 1, kThreads, block_values<kThreads>() * sizeof(int),
           ctx.cuda_stream(), in[0].data, in[0].spec.dtype == DType::f64, flags, count, out.as<T>(),
           reinterpret_cast<unsigned long long*>(ctx.skipped_counter()));
  });
}

void lr_if_finite_cuda(CudaContext& ctx, Buffers in, const Buffer& out, Buffer scratch) {
  CudaDeviceGuard guard(ctx.index());
  auto* flags = scratch.as<int32_t>();
  flag_non_finite(ctx, in.subspan(1), flags);
  int32_t count = 0;
  for (const Buffer& x : in.subspan(1)) count += FiniteParts(x.elements()).count;
  visit_float(out.spec.dtype, [&]<class T>(T) {
    launch("lr_if_finite", lr_if_finite<T>, 1, kThreads, block_values<kThreads>() * sizeof(int),
           ctx.cuda_stream(), in[0].as<const T>(), flags, count, out.as<T>());
  });
}

void increment_step_cuda(CudaContext& ctx, const Buffer& counter, const Buffer& lr) {
  CudaDeviceGuard guard(ctx.index());
  launch("increment_step", increment_step, 1, 1, 0, ctx.cuda_stream(), counter.as<int64_t>(),
         lr.data, lr.spec.dtype == DType::f64);
}

void update_cuda(CudaContext& ctx, const SgdParams& params, const UpdateBuffers& tensors,
                 Buffer scratch) {
  update_all("sgd_update", ctx, params, tensors, scratch);
}
void update_cuda(CudaContext& ctx, const AdamWParams& params, const UpdateBuffers& tensors,
                 Buffer scratch) {
  update_all("adamw_update", ctx, params, tensors, scratch);
}

}  // namespace tessera
