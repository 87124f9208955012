// softmax on a GPU. A row is read three times, for its maximum, the sum and the result; only the
// first read is from device memory.
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/row_code.h"

namespace tessera {
namespace {

template <class Team, bool logarithm, class T>
__global__ void __launch_bounds__(kRowThreads, 4)
    softmax_rows(const T* x, T* y, int64_t rows, int64_t c) {
  constexpr int N = Team::N;
  if (Team::row() >= rows) return;
  x += Team::row() * c;
  y += Team::row() * c;
  const bool vectorized = takes_packs<N>(x) && takes_packs<N>(y);
  const T most = row_max<Team>(x, c, vectorized);
  const T sum = row_sum_exp<Team, T>(x, c, most, vectorized);
  const T scale = logarithm ? ::log(sum) : T(1) / sum;
  Team::each(c, [&](int64_t j) {
    Pack<T, N> values = load_vector<N>(x + j, vectorized);
    for (int k = 0; k < N; ++k)
      values[k] = logarithm ? values[k] - most - scale : ::exp(values[k] - most) * scale;
    store_some(y + j, values, vectorized);
  });
}

template <class Team, bool logarithm, class T>
__global__ void __launch_bounds__(kRowThreads, 4)
    softmax_grad_rows(const T* dy, const T* y, T* dx, int64_t rows, int64_t c) {
  constexpr int N = Team::N;
  if (Team::row() >= rows) return;
  const int64_t first = Team::row() * c;
  dy += first;
  y += first;
  dx += first;
  const bool vectorized = takes_packs<N>(dy) && takes_packs<N>(y) && takes_packs<N>(dx);
  T sum = 0;
  Team::each(c, [&](int64_t j) {
    const Pack<T, N> g = load_vector<N>(dy + j, vectorized), p = load_vector<N>(y + j, vectorized);
    for (int k = 0; k < N; ++k) sum += logarithm ? g[k] : g[k] * p[k];
  });
  sum = Team::last_sum(sum);
  Team::each(c, [&](int64_t j) {
    Pack<T, N> g = load_vector<N>(dy + j, vectorized);
    const Pack<T, N> p = load_vector<N>(y + j, vectorized);
    for (int k = 0; k < N; ++k) g[k] = logarithm ? g[k] - ::exp(p[k]) * sum : p[k] * (g[k] - sum);
    store_some(dx + j, g, vectorized);
  });
}

}  // namespace

void softmax_cuda(CudaContext& ctx, bool logarithm, const Buffer& x, const Buffer& y) {
  if (x.elements() == 0) return;
  const int64_t c = x.spec.shape.back(), rows = x.elements() / c;
  CudaDeviceGuard guard(ctx.index());
  visit_float(x.spec.dtype, [&]<class T>(T) {
    with_row_team<T>(rows, c, [&]<class Team>(Team, dim3 grid) {
      launch("softmax", logarithm ? softmax_rows<Team, true, T> : softmax_rows<Team, false, T>,
             grid, kRowThreads, kRowShared, ctx.cuda_stream(), x.as<const T>(), y.as<T>(), rows, c);
    });
  });
}

void softmax_grad_cuda(CudaContext& ctx, bool logarithm, const Buffer& dy, const Buffer& y,
                       const Buffer& dx) {
  if (dy.elements() == 0) return;
  const int64_t c = dy.spec.shape.back(), rows = dy.elements() / c;
  CudaDeviceGuard guard(ctx.index());
  visit_float(dy.spec.dtype, [&]<class T>(T) {
    with_row_team<T>(rows, c, [&]<class Team>(Team, dim3 grid) {
      launch("softmax_grad",
             logarithm ? softmax_grad_rows<Team, true, T> : softmax_grad_rows<Team, false, T>, grid,
             kRowThreads, kRowShared, ctx.cuda_stream(), dy.as<const T>(), y.as<const T>(),
             dx.as<T>(), rows, c);
    });
  });
}

}  // namespace tessera
