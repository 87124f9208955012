// Layer norm on a GPU: a team of threads reads each row three times, only once from device memory.
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/row_code.h"

namespace tessera {
namespace {

// The sum of deviations from a rough mean corrects its rounding error.
template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads)
    moments_of_rows(const T* x, int64_t rows, int64_t c, double eps, T* mean, T* inverse) {
  constexpr int N = Team::N;
  const int64_t row = Team::row();
  if (row >= rows) return;
  x += row * c;
  const bool vectorized = takes_packs<N>(x);
  const T n = static_cast<T>(c);
  T middle = 0;
  for (int pass = 0; pass < 2; ++pass) {
    T sum = 0;
    Team::each(c, [&](int64_t j) {
      const Pack<T, N> values = load_vector<N>(x + j, vectorized);
      for (int k = 0; k < N; ++k) sum += values[k] - middle;
    });
    middle += Team::sum(sum) / n;
  }
  T squares = 0;
  Team::each(c, [&](int64_t j) {
    const Pack<T, N> values = load_vector<N>(x + j, vectorized);
    for (int k = 0; k < N; ++k) squares += (values[k] - middle) * (values[k] - middle);
  });
  const T variance = Team::sum(squares) / n;
  if (Team::lane() != 0) return;
  mean[row] = middle;
  inverse[row] = static_cast<T>(1 / ::sqrt(static_cast<double>(variance) + eps));
}

template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads)
    gradient_means_of_rows(const T* dy, const T* x, const T* gamma, const T* mean, const T* inverse,
                           int64_t rows, int64_t c, T* first, T* second) {
  constexpr int N = Team::N;
  const int64_t row = Team::row();
  if (row >= rows) return;
  dy += row * c;
  x += row * c;
  const bool vectorized = takes_packs<N>(dy) && takes_packs<N>(x) && takes_packs<N>(gamma);
  const T n = static_cast<T>(c), middle = mean[row];
  T sum = 0, products = 0;
  Team::each(c, [&](int64_t j) {
    const Pack<T, N> g = load_vector<N>(dy + j, vectorized),
                     values = load_vector<N>(x + j, vectorized);
    const Pack<T, N> scale = load_vector<N>(gamma + j, vectorized);
    for (int k = 0; k < N; ++k) {
      const T grad = g[k] * scale[k];
      sum += grad;
      products += grad * (values[k] - middle);
    }
  });
  sum = Team::sum(sum);
  products = Team::sum(products);
  if (Team::lane() != 0) return;
  first[row] = sum / n;
  second[row] = products * inverse[row] / n;
}

}  // namespace

template <class T>
void layer_moments_cuda(CudaContext& ctx, int64_t rows, int64_t c, double eps, const T* x, T* mean,
                        T* inverse) {
  if (rows == 0) return;
  CudaDeviceGuard guard(ctx.index());
  with_row_team<T>(rows, c, [&](auto team, dim3 grid) {
    launch("layer_moments", moments_of_rows<decltype(team), T>, grid, kRowThreads, kRowShared,
           ctx.cuda_stream(), x, rows, c, eps, mean, inverse);
  });
}

template <class T>
void layer_gradient_means_cuda(CudaContext& ctx, int64_t rows, int64_t c, const T* dy, const T* x,
                               const T* gamma, const T* mean, const T* inverse, T* first,
                               T* second) {
  if (rows == 0) return;
  CudaDeviceGuard guard(ctx.index());
  with_row_team<T>(rows, c, [&](auto team, dim3 grid) {
    launch("layer_norm_grad_means", gradient_means_of_rows<decltype(team), T>, grid, kRowThreads,
           kRowShared, ctx.cuda_stream(), dy, x, gamma, mean, inverse, rows, c, first, second);
  });
}

#define TESSERA_LAYER_NORM(T)                                                                 \
  template void layer_moments_cuda(CudaContext&, int64_t, int64_t, double, const T*, T*, T*); \
  template void layer_gradient_means_cuda(CudaContext&, int64_t, int64_t, const T*, const T*, \
                                          const T*, const T*, const T*, T*, T*);
TESSERA_LAYER_NORM(float)
TESSERA_LAYER_NORM(double)
#undef TESSERA_LAYER_NORM

}  // namespace tessera
