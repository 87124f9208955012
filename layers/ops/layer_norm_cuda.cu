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

void layer_moments_cuda(CudaContext& ctx, double eps, const Buffer& x, Buffers out) {
  const int64_t rows = out[0].elements(), c = x.spec.shape.back();
  if (rows == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(x.spec.dtype, [&]<class T>(T) {
    with_row_team<T>(rows, c, [&]<class Team>(Team, dim3 grid) {
      launch("layer_moments", moments_of_rows<Team, T>, grid, kRowThreads, kRowShared,
             ctx.cuda_stream(), x.as<const T>(), rows, c, eps, out[0].as<T>(), out[1].as<T>());
    });
  });
}

void layer_gradient_means_cuda(CudaContext& ctx, Buffers in, Buffers out) {
  const int64_t rows = out[0].elements(), c = in[1].spec.shape.back();
  if (rows == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(in[0].spec.dtype, [&]<class T>(T) {
    with_row_team<T>(rows, c, [&]<class Team>(Team, dim3 grid) {
      launch("layer_norm_grad_means", gradient_means_of_rows<Team, T>, grid, kRowThreads,
             kRowShared, ctx.cuda_stream(), in[0].as<const T>(), in[1].as<const T>(),
             in[2].as<const T>(), in[3].as<const T>(), in[4].as<const T>(), rows, c, out[0].as<T>(),
             out[1].as<T>());
    });
  });
}

}  // namespace tessera
