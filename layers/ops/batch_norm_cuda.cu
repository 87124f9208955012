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

// Runs as one block, which can check alone that all values are finite.
template <class T>
__global__ void __launch_bounds__(kThreads)
    update_running(T keep, T take, int64_t c, BatchNormRunning<T> of, unsigned long long* refused) {
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

template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    grad_finalise_channels(int64_t blocks, int64_t rows, int64_t c, const T* sums, const T* gamma,
                           const T* inv_stddev, BatchNormGradOut<T> out, ColumnThread place) {
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

template <class T>
void batch_norm_finalise_cuda(CudaContext& ctx, ChannelBlocks blocks, int64_t c, double eps,
                              const T* moments, T* mean, T* inv_stddev, T* variance) {
  if (c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  launch_columns<ColumnMoments<double, 1>>("batch_norm_finalise", finalise_channels<T>, 1, c, 1,
                                           kFewColumns, ctx.cuda_stream(), blocks, c, eps, moments,
                                           mean, inv_stddev, variance);
}

template <class T>
void batch_norm_update_cuda(CudaContext& ctx, double momentum, int64_t c,
                            const BatchNormRunning<T>& of) {
  if (c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  launch("batch_norm_update", update_running<T>, 1, kThreads,
         block_values<kThreads>() * sizeof(int), ctx.cuda_stream(), static_cast<T>(1 - momentum),
         static_cast<T>(momentum), c, of,
         reinterpret_cast<unsigned long long*>(ctx.skipped_counter()));
}

template <class T>
void batch_norm_grad_finalise_cuda(CudaContext& ctx, int64_t blocks, int64_t rows, int64_t c,
                                   const T* sums, const T* gamma, const T* inv_stddev,
                                   const BatchNormGradOut<T>& out) {
  if (c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  launch_columns<ColumnSums<double, 2>>("batch_norm_grad_finalise", grad_finalise_channels<T>, 1, c,
                                        1, kFewColumns, ctx.cuda_stream(), blocks, rows, c, sums,
                                        gamma, inv_stddev, out);
}

#define TESSERA_BATCH_NORM(T)                                                                      \
  template void batch_norm_finalise_cuda(CudaContext&, ChannelBlocks, int64_t, double, const T*,   \
                                         T*, T*, T*);                                              \
  template void batch_norm_update_cuda(CudaContext&, double, int64_t, const BatchNormRunning<T>&); \
  template void batch_norm_grad_finalise_cuda(CudaContext&, int64_t, int64_t, int64_t, const T*,   \
                                              const T*, const T*, const BatchNormGradOut<T>&);
TESSERA_BATCH_NORM(float)
TESSERA_BATCH_NORM(double)
#undef TESSERA_BATCH_NORM

}  // namespace tessera
