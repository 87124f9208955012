// max along an axis on a GPU. If `inner` fills a warp, one thread goes along the axis; otherwise a
// team of threads does, whatever the stride.
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/row_code.h"

namespace tessera {
namespace {

// The largest value so far and its index. A NaN is the largest; the first of equal values counts.
template <class T>
struct Largest {
  T value;
  int64_t at;
  __device__ void add(T other, int64_t position) {
    if (!(other <= value) && value == value) value = other, at = position;
  }
};

template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads)
    max_of_teams(const T* x, AxisGeometry g, T* y, int64_t* positions) {
  const int64_t row = Team::row();
  if (row >= g.outer * g.inner) return;
  x += row / g.inner * g.n * g.inner + row % g.inner;
  // A thread without an element of its own starts with the first.
  const int64_t first = Team::lane() < g.n ? Team::lane() : 0;
  Largest<T> mine{x[first * g.inner], first};
  Team::each(g.n, [&](int64_t j) { mine.add(x[j * g.inner], j); });
  const T best =
      Team::reduce(mine.value, -kInfinity<T>, [](T a, T b) { return a != a || b <= a ? a : b; });
  const bool found = mine.value == best || (best != best && mine.value != mine.value);
  const int64_t at =
      Team::reduce(found ? mine.at : g.n, g.n, [](int64_t a, int64_t b) { return a < b ? a : b; });
  if (Team::lane() != 0) return;
  y[row] = x[at * g.inner];
  positions[row] = at;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    max_of_threads(const T* x, AxisGeometry g, T* y, int64_t* positions) {
  const int64_t row = first_index();
  if (row >= g.outer * g.inner) return;
  x += row / g.inner * g.n * g.inner + row % g.inner;
  Largest<T> mine{x[0], 0};
  for (int64_t j = 1; j < g.n; ++j) mine.add(x[j * g.inner], j);
  y[row] = mine.value;
  positions[row] = mine.at;
}

// Gathers dx: dy where x had its maximum, 0 elsewhere.
template <class Index, class T>
__global__ void __launch_bounds__(kThreads)
    max_grad_of_threads(const T* dy, const int64_t* positions, Index n, Index inner, int64_t total,
                        T* dx) {
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const Index at = static_cast<Index>(i), row = at / inner, from = row / n * inner + at % inner;
    dx[i] = positions[from] == row % n ? dy[from] : T(0);
  }
}

}  // namespace

void max_cuda(CudaContext& ctx, const AxisGeometry& g, const Buffer& x, const Buffer& y,
              const Buffer& positions) {
  const int64_t rows = g.outer * g.inner;
  if (rows == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(x.spec.dtype, [&]<class T>(T) {
    if (g.inner >= kWarp) {
      const dim3 grid(static_cast<unsigned>(ceil_div<int64_t>(rows, kThreads)));
      launch("max", max_of_threads<T>, grid, kThreads, 0, ctx.cuda_stream(), x.as<const T>(), g,
             y.as<T>(), positions.as<int64_t>());
      return;
    }
    with_row_team<T, false>(rows, g.n, [&]<class Team>(Team, dim3 grid) {
      launch("max", max_of_teams<Team, T>, grid, kRowThreads, kRowShared, ctx.cuda_stream(),
             x.as<const T>(), g, y.as<T>(), positions.as<int64_t>());
    });
  });
}

void max_grad_cuda(CudaContext& ctx, const AxisGeometry& g, const Buffer& dy,
                   const Buffer& positions, const Buffer& dx) {
  const int64_t total = dx.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(dx.spec.dtype, [&]<class T>(T) {
    with_index(total, [&]<class Index>(Index) {
      launch("max_grad", max_grad_of_threads<Index, T>, grid_for(total, kThreads, 1 << 16),
             kThreads, 0, ctx.cuda_stream(), dy.as<const T>(), positions.as<const int64_t>(),
             static_cast<Index>(g.n), static_cast<Index>(g.inner), total, dx.as<T>());
    });
  });
}

}  // namespace tessera
