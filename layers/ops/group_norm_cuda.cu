// Group norm on a GPU: a team of threads per group of a sample, sums in double as on the CPU.
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/row_code.h"

namespace tessera {
namespace {

struct GroupShape {
  int64_t n, c, groups, pixels;
};

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

// Calls run(T(), Team(), grid, shape) for x [n, 2, c] unless x is empty.
template <class Run>
void with_groups(CudaContext& ctx, const NormGroups& params, const TensorSpec& x, Run&& run) {
  const GroupShape s{x.shape[0], x.shape[2], params.groups, params.pixels};
  if (s.n * s.c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_float(x.dtype, [&]<class T>(T zero) {
    with_row_team<T, false>(s.n * s.groups, s.c / s.groups,
                            [&](auto team, dim3 grid) { run(zero, team, grid, s); });
  });
}

}  // namespace

void group_norm_finalise_cuda(CudaContext& ctx, const NormGroups& params, const Buffer& moments,
                              Buffers out) {
  with_groups(ctx, params, moments.spec, [&]<class T, class Team>(T, Team, dim3 grid, auto s) {
    launch("group_norm_finalise", finalise_groups<Team, T>, grid, kRowThreads, kRowShared,
           ctx.cuda_stream(), s, params.eps, moments.as<const T>(), out[0].as<T>(), out[1].as<T>());
  });
}

void group_norm_grad_means_cuda(CudaContext& ctx, const NormGroups& params, const Buffer& sums,
                                const Buffer& gamma, Buffers out) {
  with_groups(ctx, params, sums.spec, [&]<class T, class Team>(T, Team, dim3 grid, auto s) {
    launch("group_norm_grad_means", grad_means_of_groups<Team, T>, grid, kRowThreads, kRowShared,
           ctx.cuda_stream(), s, sums.as<const T>(), gamma.as<const T>(), out[0].as<T>(),
           out[1].as<T>());
  });
}

}  // namespace tessera
