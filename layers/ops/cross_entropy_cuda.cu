// cross_entropy on a GPU: a team of threads per row, sums in double as on the CPU.
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/row_code.h"

namespace tessera {
namespace {

// Returns log(sum_j exp(z[j])) to every thread of the team; large z do not overflow.
template <class Team, class T>
__device__ double log_sum_exp(const T* z, int64_t c, bool vectorized) {
  const T most = row_max<Team>(z, c, vectorized);
  return most + ::log(row_sum_exp<Team, double>(z, c, most, vectorized));
}

template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads) loss_rows(CrossEntropyCase<T> in, double* rows) {
  constexpr int N = Team::N;
  const int64_t row = Team::row();
  if (row >= in.n) return;
  const T* z = in.logits + row * in.c;
  const bool vectorized = takes_packs<N>(z);
  const double s = in.smoothing;
  double wanted = 0, all = 0, weight = 1;  // sums of t z, of z and of t
  bool known = true;
  if (in.labels != nullptr) {
    const int64_t label = in.labels[row];
    known = label >= 0 && label < in.c;
    if (known) wanted = z[label];
  } else {
    const T* t = in.targets + row * in.c;
    const bool t_together = takes_packs<N>(t);
    weight = 0;
    Team::each(in.c, [&](int64_t j) {
      const Pack<T, N> values = load_vector<N>(z + j, vectorized),
                       wants = load_vector<N>(t + j, t_together);
      for (int k = 0; k < N; ++k) wanted += double{wants[k]} * values[k], weight += wants[k];
    });
    wanted = Team::sum(wanted);
    weight = Team::sum(weight);
  }
  if (s != 0) {
    Team::each(in.c, [&](int64_t j) {
      const Pack<T, N> values = load_vector<N>(z + j, vectorized);
      for (int k = 0; k < N; ++k) all += values[k];
    });
    all = Team::sum(all);
  }
  const double log_sum = log_sum_exp<Team>(z, in.c, vectorized);
  if (Team::lane() != 0) return;
  const double loss =
      ((1 - s) * weight + s) * log_sum - (1 - s) * wanted - s / static_cast<double>(in.c) * all;
  rows[row] = known ? loss : kNan<double>;
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    mean_of_rows(const double* rows, int64_t n, T* loss) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kRowThreads) sum += rows[i];
  sum = block_sum<kRowThreads>(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) *loss = static_cast<T>(sum / static_cast<double>(n));
}

// Works in place if d_logits is the logits: a thread reads only elements that it writes.
template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads)
    logits_grad_rows(CrossEntropyCase<T> in, const T* d_loss, T* d_logits) {
  constexpr int N = Team::N;
  const int64_t row = Team::row();
  if (row >= in.n) return;
  const T* z = in.logits + row * in.c;
  T* dz = d_logits + row * in.c;
  const double scale = *d_loss / static_cast<double>(in.n);
  const double s = in.smoothing, floor = s / static_cast<double>(in.c);
  const bool vectorized = takes_packs<N>(z) && takes_packs<N>(dz);
  const double log_sum = log_sum_exp<Team>(z, in.c, vectorized);
  if (in.labels != nullptr) {
    const int64_t label = in.labels[row];
    const bool known = label >= 0 && label < in.c;
    const double factor = known ? scale : kNan<double>;
    Team::each(in.c, [&](int64_t j) {
      Pack<T, N> values = load_vector<N>(z + j, vectorized);
      for (int k = 0; k < N; ++k) {
        const double t = (j + k == label ? 1 - s : 0) + floor;
        values[k] = static_cast<T>(factor * (::exp(static_cast<T>(values[k] - log_sum)) - t));
      }
      store_some(dz + j, values, vectorized);
    });
    return;
  }
  const T* t = in.targets + row * in.c;
  const bool t_together = takes_packs<N>(t);
  double weight = 0;
  Team::each(in.c, [&](int64_t j) {
    const Pack<T, N> wants = load_vector<N>(t + j, t_together);
    for (int k = 0; k < N; ++k) weight += wants[k];
  });
  weight = (1 - s) * Team::sum(weight) + s;
  Team::each(in.c, [&](int64_t j) {
    Pack<T, N> values = load_vector<N>(z + j, vectorized);
    const Pack<T, N> wants = load_vector<N>(t + j, t_together);
    for (int k = 0; k < N; ++k) {
      const double p = ::exp(static_cast<T>(values[k] - log_sum));
      values[k] = static_cast<T>(scale * (weight * p - (1 - s) * wants[k] - floor));
    }
    store_some(dz + j, values, vectorized);
  });
}

template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads, 4)
    targets_grad_rows(CrossEntropyCase<T> in, const T* d_loss, T* d_targets) {
  constexpr int N = Team::N;
  const int64_t row = Team::row();
  if (row >= in.n) return;
  const T* z = in.logits + row * in.c;
  T* dt = d_targets + row * in.c;
  const double scale = (1 - in.smoothing) * *d_loss / static_cast<double>(in.n);
  const bool vectorized = takes_packs<N>(z) && takes_packs<N>(dt);
  const double log_sum = log_sum_exp<Team>(z, in.c, vectorized);
  Team::each(in.c, [&](int64_t j) {
    Pack<T, N> values = load_vector<N>(z + j, vectorized);
    for (int k = 0; k < N; ++k) values[k] = static_cast<T>(scale * (log_sum - values[k]));
    store_some(dt + j, values, vectorized);
  });
}

}  // namespace

void cross_entropy_loss_cuda(CudaContext& ctx, double smoothing, Buffers in, const Buffer& loss,
                             double* rows) {
  CudaDeviceGuard guard(ctx.index());
  visit_float(in[0].spec.dtype, [&]<class T>(T) {
    const CrossEntropyCase<T> data(in, smoothing);
    with_row_team<T>(data.n, data.c, [&]<class Team>(Team, dim3 grid) {
      launch("cross_entropy", loss_rows<Team, T>, grid, kRowThreads, kRowShared, ctx.cuda_stream(),
             data, rows);
    });
    launch("cross_entropy", mean_of_rows<T>, 1, kRowThreads, kRowShared, ctx.cuda_stream(), rows,
           data.n, loss.as<T>());
  });
}

void cross_entropy_grad_cuda(CudaContext& ctx, double smoothing, bool of_logits, Buffers in,
                             const Buffer& out) {
  if (out.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(out.spec.dtype, [&]<class T>(T) {
    const CrossEntropyCase<T> data(in, smoothing);
    with_row_team<T>(data.n, data.c, [&]<class Team>(Team, dim3 grid) {
      launch(of_logits ? "cross_entropy_grad" : "cross_entropy_targets_grad",
             of_logits ? logits_grad_rows<Team, T> : targets_grad_rows<Team, T>, grid, kRowThreads,
             kRowShared, ctx.cuda_stream(), data, in[2].as<const T>(), out.as<T>());
    });
  });
}

}  // namespace tessera
