// Group norm on a GPU: a team of threads per group of a sample, sums in double as on the CPU.
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/row_code.h"

namespace tessera {
namespace {

template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads)
    finalise_groups(GroupShape s, double eps, const T* moments, T* mean, T* inverse) {
  const int64_t group = Team::row(), width = s.c / s.groups;
  if (group >= s.n * s.groups) return;
  moments += group / s.groups * 2 * s.c + group % s.groups * width;
  double middle = 0, m2 = 0;
  Team::each(width, [&](int64_t j) { middle += moments[j]; });
  middle = Team::sum(middle) / static_cast<double>(width);
  Team::each(width, [&](int64_t j) {
    const double d = moments[j] - middle;
    m2 += moments[s.c + j] + static_cast<double>(s.pixels) * d * d;
  });
  m2 = Team::sum(m2);
  const T scale = static_cast<T>(1 / ::sqrt(m2 / static_cast<double>(width * s.pixels) + eps));
  Team::each(width, [&](int64_t j) {
    mean[group * width + j] = static_cast<T>(middle);
    inverse[group * width + j] = scale;
  });
}

template <class Team, class T>
__global__ void __launch_bounds__(kRowThreads)
    grad_means_of_groups(GroupShape s, const T* sums, const T* gamma, T* first, T* second) {
  const int64_t group = Team::row(), width = s.c / s.groups;
  if (group >= s.n * s.groups) return;
  sums += group / s.groups * 2 * s.c + group % s.groups * width;
  gamma += group % s.groups * width;
  double sum = 0, products = 0;
  Team::each(width, [&](int64_t j) {
    sum += static_cast<double>(sums[j]) * gamma[j];
    products += static_cast<double>(sums[s.c + j]) * gamma[j];
  });
  const double count = static_cast<double>(width * s.pixels);
  const T mean = static_cast<T>(Team::sum(sum) / count);
  const T mean_product = static_cast<T>(Team::sum(products) / count);
  Team::each(width, [&](int64_t j) {
    first[group * width + j] = mean;
    second[group * width + j] = mean_product;
  });
}

}  // namespace

template <class T>
void group_norm_finalise_cuda(CudaContext& ctx, const GroupShape& s, double eps, const T* moments,
                              T* mean, T* inverse) {
  if (s.n * s.c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  with_row_team<T, false>(s.n * s.groups, s.c / s.groups, [&](auto team, dim3 grid) {
    launch("group_norm_finalise", finalise_groups<decltype(team), T>, grid, kRowThreads, kRowShared,
           ctx.cuda_stream(), s, eps, moments, mean, inverse);
  });
}

template <class T>
void group_norm_grad_means_cuda(CudaContext& ctx, const GroupShape& s, const T* sums,
                                const T* gamma, T* first, T* second) {
  if (s.n * s.c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  with_row_team<T, false>(s.n * s.groups, s.c / s.groups, [&](auto team, dim3 grid) {
    launch("group_norm_grad_means", grad_means_of_groups<decltype(team), T>, grid, kRowThreads,
           kRowShared, ctx.cuda_stream(), s, sums, gamma, first, second);
  });
}

#define TESSERA_GROUP_NORM(T)                                                                   \
  template void group_norm_finalise_cuda(CudaContext&, const GroupShape&, double, const T*, T*, \
                                         T*);                                                   \
  template void group_norm_grad_means_cuda(CudaContext&, const GroupShape&, const T*, const T*, \
                                           T*, T*);
TESSERA_GROUP_NORM(float)
TESSERA_GROUP_NORM(double)
#undef TESSERA_GROUP_NORM

}  // namespace tessera
