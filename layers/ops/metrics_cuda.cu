// top_k_correct on a GPU: a team of threads per row, then one block counts.
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/row_code.h"

namespace tessera {
namespace {

template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads)
    top_k_rows(const T* logits, const int32_t* labels, int64_t n, int64_t classes, int64_t top,
               uint8_t* correct) {
  constexpr int N = Team::N;
  const int64_t row = Team::row();
  if (row >= n) return;
  const T* z = logits + row * classes;
  const bool vectorized = takes_packs<N>(z);
  const int64_t label = labels[row];
  const bool known = label >= 0 && label < classes;
  const T mine = known ? z[label] : T(0);
  int64_t ahead = 0;
  Team::each(classes, [&](int64_t j) {
    const Pack<T, N> values = load_vector<N>(z + j, vectorized);
    for (int k = 0; k < N; ++k) {
      // Written so that a NaN on either side is ahead of the label.
      const bool behind = values[k] < mine || (values[k] == mine && j + k >= label);
      ahead += behind ? 0 : 1;
    }
  });
  ahead = Team::last_sum(ahead);
  if (Team::lane() == 0) correct[row] = known && ahead < top ? 1 : 0;
}

__global__ void __launch_bounds__(kRowThreads)
    count_correct(const uint8_t* correct, int64_t n, float* count) {
  int64_t found = 0;
  for (int64_t i = threadIdx.x; i < n; i += kRowThreads) found += correct[i];
  found = block_sum<kRowThreads>(found, dynamic_shared<int64_t>());
  if (threadIdx.x == 0) *count = static_cast<float>(found);
}

}  // namespace

void top_k_correct_cuda(CudaContext& ctx, int64_t k, const Buffer& logits, const Buffer& labels,
                        const Buffer& count, uint8_t* correct) {
  const int64_t n = logits.spec.shape[0], classes = logits.spec.shape[1];
  CudaDeviceGuard guard(ctx.index());
  visit_float(logits.spec.dtype, [&]<class T>(T) {
    if (n == 0) return;
    with_row_team<T>(n, classes, [&]<class Team>(Team, dim3 grid) {
      launch("top_k_correct", top_k_rows<Team, T>, grid, kRowThreads, kRowShared, ctx.cuda_stream(),
             logits.as<const T>(), labels.as<const int32_t>(), n, classes, k, correct);
    });
  });
  launch("top_k_correct", count_correct, 1, kRowThreads, kRowShared, ctx.cuda_stream(), correct, n,
         count.as<float>());
}

}  // namespace tessera
