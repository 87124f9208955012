#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/table_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

template <class T>
struct Looked {
  const T* data;
  int64_t elements;
  int32_t part, first;  // elements of a part, the first flag
};

template <class T, int kMax>
struct LookedAt : TensorTable<Looked<T>, kMax> {
  int32_t* flags;
};

template <class T>
__device__ bool not_finite(T x) {
  return x - x != T(0);
}

template <class T, int kMax>
__global__ void __launch_bounds__(kThreads)
    flag_parts(const __grid_constant__ LookedAt<T, kMax> table) {
  constexpr int N = kPack<T>;
  const auto block = static_cast<int32_t>(blockIdx.x);
  const Looked<T>& tensor = table.of_block(block);
  const int64_t first = int64_t{block - tensor.first} * tensor.part;
  const auto count = static_cast<int>(
      tensor.elements - first < tensor.part ? tensor.elements - first : int64_t{tensor.part});
  const T* x = tensor.data + first;
  int found = 0, done = 0;
  if (takes_packs<N>(x)) {
    done = count / N * N;
    for (int i = static_cast<int>(threadIdx.x) * N; i < done; i += kThreads * N) {
      const Pack<T, N> values = load_pack<N>(x + i);
      for (int k = 0; k < N; ++k) found |= not_finite(values[k]);
    }
  }
  for (int i = done + static_cast<int>(threadIdx.x); i < count; i += kThreads)
    found |= not_finite(x[i]);
  found = block_or<kThreads>(found, dynamic_shared<int>());
  if (threadIdx.x == 0) table.flags[block] = found;
}

// Returns the number of flags.
template <class T, int kMax>
int32_t flag_table(CudaContext& ctx, Buffers tensors, int32_t* flags) {
  LookedAt<T, kMax> table{};
  table.flags = flags;
  int32_t first = 0;
  for (const Buffer& x : tensors) {
    const FiniteParts parts(x.elements());
    table.add({x.as<const T>(), x.elements(), parts.elements, first});
    first += parts.count;
  }
  launch("flag_non_finite", flag_parts<T, kMax>, static_cast<unsigned>(first), kThreads,
         block_values<kThreads>() * sizeof(int), ctx.cuda_stream(), table);
  return first;
}

}  // namespace

void flag_non_finite(CudaContext& ctx, Buffers tensors, int32_t* flags) {
  CudaDeviceGuard guard(ctx.index());
  while (!tensors.empty()) {
    const DType dtype = tensors[0].spec.dtype;
    const auto other = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const Buffer& x) { return x.spec.dtype != dtype; });
    const Buffers same = tensors.first(static_cast<size_t>(other - tensors.begin()));
    visit_float(dtype, [&](auto zero) {
      for_tables(same.size(), [&](auto size, size_t first, size_t count) {
        flags += flag_table<decltype(zero), size>(ctx, same.subspan(first, count), flags);
      });
    });
    tensors = tensors.subspan(same.size());
  }
}

}  // namespace tessera
