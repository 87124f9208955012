// The small kernels of batch norm on a GPU; sums over blocks are in double as on the CPU.
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/column_code.h"
#include "tessera/runtime/cuda/context.h"

namespace tessera {
namespace {

template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    finalise_channels(ChannelBlocks blocks, int64_t c, double eps, const T* moments, T* mean,
                      T* inv_stddev, T* variance, ColumnThread place) {
  const int64_t at = place.column();
  ColumnMoments<double, 1> mine;
  for (int64_t b = place.line(); at < c && b < blocks.count(); b += place.lines()) {
    ColumnMoments<double, 1> block;
    block.count = static_cast<double>(blocks.size(b));
    block.mean[0] = moments[b * 2 * c + at];
    block.m2[0] = moments[b * 2 * c + c + at];
    mine.merge(block);
  }
  merge_lines(mine, place);
  if (at >= c || place.line() != 0) return;
  const double n = static_cast<double>(blocks.rows);
  mean[at] = static_cast<T>(mine.mean[0]);
  inv_stddev[at] = static_cast<T>(1 / ::sqrt(mine.m2[0] / n + eps));
  variance[at] = static_cast<T>(mine.m2[0] / (n - 1));
}

// The arguments of the update, each [c].
template <class T>
struct Running {
  const T *old_mean, *old_variance, *mean, *variance;
  T *running_mean, *running_variance;
};

// Runs as one block, which can check alone that all values are finite.
template <class T>
__global__ void __launch_bounds__(kThreads)
    update_running(T keep, T take, int64_t c, Running<T> of, unsigned long long* refused) {
  int bad = 0;
  for (int64_t j = threadIdx.x; j < c; j += kThreads)  // x - x is 0 only for finite x
    bad |= of.mean[j] - of.mean[j] != T(0) || of.variance[j] - of.variance[j] != T(0);
  bad = block_or<kThreads>(bad, dynamic_shared<int>());
  if (bad != 0) {
    if (threadIdx.x == 0) atomicAdd(refused, 1ull);
    return;
  }
  for (int64_t j = threadIdx.x; j < c; j += kThreads) {
    of.running_mean[j] = keep * of.old_mean[j] + take * of.mean[j];
    of.running_variance[j] = keep * of.old_variance[j] + take * of.variance[j];
  }
}

// Gradients, and the values per channel of dx = (dy - (x - mean) slope - offset) scale.
template <class T>
struct GradOut {
  T *dgamma, *dbeta, *scale, *slope, *offset;
};

template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    grad_finalise_channels(int64_t blocks, int64_t rows, int64_t c, const T* sums, const T* gamma,
                           const T* inv_stddev, GradOut<T> out, ColumnThread place) {
  const int64_t at = place.column();
  ColumnSums<double, 2> mine;
  for (int64_t b = place.line(); at < c && b < blocks; b += place.lines()) {
    mine.at[0] += static_cast<double>(sums[b * 2 * c + at]);
    mine.at[1] += static_cast<double>(sums[b * 2 * c + c + at]);
  }
  merge_lines(mine, place);
  if (at >= c || place.line() != 0) return;
  const double n = static_cast<double>(rows), dbeta = mine.at[0], dgamma = mine.at[1];
  const double inverse = static_cast<double>(inv_stddev[at]);
  out.dbeta[at] = static_cast<T>(dbeta);
  out.dgamma[at] = static_cast<T>(dgamma);
  out.scale[at] = static_cast<T>(static_cast<double>(gamma[at]) * inverse);
  out.slope[at] = static_cast<T>(inverse * dgamma / n);
  out.offset[at] = static_cast<T>(dbeta / n);
}

}  // namespace

void batch_norm_finalise_cuda(CudaContext& ctx, ChannelBlocks blocks, double eps,
                              const Buffer& moments, Buffers out) {
  const int64_t c = out[0].elements();
  if (c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(out[0].spec.dtype, [&]<class T>(T) {
    launch_columns<ColumnMoments<double, 1>>(
        "batch_norm_finalise", finalise_channels<T>, 1, c, 1, kFewColumns, ctx.cuda_stream(),
        blocks, c, eps, moments.as<const T>(), out[0].as<T>(), out[1].as<T>(), out[2].as<T>());
  });
}

void batch_norm_update_cuda(CudaContext& ctx, double momentum, Buffers in, Buffers out) {
  const int64_t c = out[0].elements();
  if (c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(out[0].spec.dtype, [&]<class T>(T) {
    const Running<T> of{in[0].as<const T>(), in[1].as<const T>(), in[2].as<const T>(),
                        in[3].as<const T>(), out[0].as<T>(),      out[1].as<T>()};
    launch("batch_norm_update", update_running<T>, 1, kThreads,
           block_values<kThreads>() * sizeof(int), ctx.cuda_stream(), static_cast<T>(1 - momentum),
           static_cast<T>(momentum), c, of,
           reinterpret_cast<unsigned long long*>(ctx.skipped_counter()));
  });
}

void batch_norm_grad_finalise_cuda(CudaContext& ctx, int64_t rows, Buffers in, Buffers out) {
  const int64_t blocks = in[0].spec.shape[0], c = in[0].spec.shape[2];
  if (c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(out[0].spec.dtype, [&]<class T>(T) {
    const GradOut<T> to{out[0].as<T>(), out[1].as<T>(), out[2].as<T>(), out[3].as<T>(),
                        out[4].as<T>()};
    launch_columns<ColumnSums<double, 2>>("batch_norm_grad_finalise", grad_finalise_channels<T>, 1,
                                          c, 1, kFewColumns, ctx.cuda_stream(), blocks, rows, c,
                                          in[0].as<const T>(), in[1].as<const T>(),
                                          in[2].as<const T>(), to);
  });
}

}  // namespace tessera
