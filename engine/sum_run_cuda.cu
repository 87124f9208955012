#include "tessera/engine/kernels_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

template <class T, int kWide>
__device__ void load_columns(const T* from, T (&values)[kWide]) {
  constexpr int N = kWide < kPack<T> ? kWide : kPack<T>;
  if (takes_packs<N>(from)) {
    for (int first = 0; first < kWide; first += N) {
      const Pack<T, N> pack = load_pack<N>(from + first);
      for (int k = 0; k < N; ++k) values[first + k] = pack[k];
    }
  } else {
    for (int k = 0; k < kWide; ++k) values[k] = from[k];
  }
}

// y[o, block, i] = sum of x[o, r, i] over the rows of the block.
template <class T, class Sum, class Out, int kWide>
__global__ void __launch_bounds__(SumRunTiling::kThreads)
    sum_rows(const T* x, Out* y, const __grid_constant__ SumRunTiling t) {
  const int across = t.across, down = SumRunTiling::kThreads / across;
  const int column = static_cast<int>(threadIdx.x) % across;
  const int row = static_cast<int>(threadIdx.x) / across;
  const int64_t tile = blockIdx.x % t.tiles, task = blockIdx.x / t.tiles;
  const int64_t block = task % t.blocks, outer = task / t.blocks;
  const int64_t at = (tile * across + column) * kWide;
  const int64_t first = block * t.rows,
                last = first + t.rows < t.shape.run ? first + t.rows : t.shape.run;
  Sum sums[kWide] = {};
  if (at < t.shape.inner) {
    const T* from = x + (outer * t.shape.run + first + row) * t.shape.inner + at;
    for (int64_t r = first + row; r < last; r += down, from += down * t.shape.inner) {
      T values[kWide];
      load_columns(from, values);
      for (int k = 0; k < kWide; ++k) sums[k] += static_cast<Sum>(values[k]);
    }
  }
  Sum* shared = dynamic_shared<Sum>();
  for (int k = 0; k < kWide; ++k)
    shared[k * SumRunTiling::kThreads + static_cast<int>(threadIdx.x)] = sums[k];
  for (int left = down / 2; left > 0; left /= 2) {
    __syncthreads();
    if (row >= left) continue;
    for (int k = 0; k < kWide; ++k) {
      Sum* mine = shared + k * SumRunTiling::kThreads + static_cast<int>(threadIdx.x);
      mine[0] += mine[left * across];
    }
  }
  if (row > 0 || at >= t.shape.inner) return;
  Out* to = y + (outer * t.blocks + block) * t.shape.inner + at;
  for (int k = 0; k < kWide; ++k)
    to[k] = static_cast<Out>(shared[k * SumRunTiling::kThreads + static_cast<int>(threadIdx.x)]);
}

template <class T, class Sum, class Out>
void launch_sum(CudaContext& ctx, const SumRunTiling& t, const T* x, Out* y) {
  const auto grid = static_cast<unsigned>(t.shape.outer * t.tiles * t.blocks);
  const size_t shared = SumRunTiling::kThreads * sizeof(Sum) * static_cast<size_t>(t.wide);
  if (t.wide == 4)
    launch("sum_run", sum_rows<T, Sum, Out, 4>, grid, SumRunTiling::kThreads, shared,
           ctx.cuda_stream(), x, y, t);
  else
    launch("sum_run", sum_rows<T, Sum, Out, 1>, grid, SumRunTiling::kThreads, shared,
           ctx.cuda_stream(), x, y, t);
}

// Computes each sum in one thread.
template <class T, class Sum>
__global__ void __launch_bounds__(SumRunTiling::kThreads)
    sum_short(const T* x, T* y, const __grid_constant__ SumRunShape shape) {
  const int64_t total = shape.outer * shape.inner;
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const int64_t outer = i / shape.inner;
    const T* from = x + outer * shape.run * shape.inner + (i - outer * shape.inner);
    Sum sum = 0;
    for (int64_t r = 0; r < shape.run; ++r) sum += static_cast<Sum>(from[r * shape.inner]);
    y[i] = static_cast<T>(sum);
  }
}

template <class T, class Sum>
void sum(CudaContext& ctx, const SumRunPlan& plan, const Buffer& in, const Buffer& out,
         Buffer scratch) {
  const auto* x = in.as<const T>();
  T* y = out.as<T>();
  const SumRunShape& s = plan.first.shape;
  if (plan.kind == SumRunPlan::short_runs) {
    launch("sum_run", sum_short<T, Sum>,
           grid_for(s.outer * s.inner, SumRunTiling::kThreads, 1 << 14), SumRunTiling::kThreads, 0,
           ctx.cuda_stream(), x, y, s);
  } else if (plan.kind == SumRunPlan::one_launch) {
    launch_sum<T, Sum, T>(ctx, plan.first, x, y);
  } else {
    launch_sum<T, Sum, Sum>(ctx, plan.first, x, scratch.as<Sum>());
    launch_sum<Sum, Sum, T>(ctx, plan.second, scratch.as<const Sum>(), y);
  }
}

}  // namespace

void sum_run_cuda(CudaContext& ctx, const SumRunShape& shape, const Buffer& in, const Buffer& out,
                  Buffer scratch) {
  if (shape.outer * shape.inner == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const SumRunPlan plan(shape);
  if (in.spec.dtype == DType::f32) sum<float, double>(ctx, plan, in, out, scratch);
  if (in.spec.dtype == DType::f64) sum<double, double>(ctx, plan, in, out, scratch);
  // Unsigned arithmetic wraps around.
  if (in.spec.dtype == DType::i64) sum<uint64_t, uint64_t>(ctx, plan, in, out, scratch);
}

}  // namespace tessera
