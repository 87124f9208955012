#include "tessera/layers/ops/group_norm.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scalar_program.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/layers/shared/sample_pointwise.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

// Returns the rows of x in blocks of one sample each.
ChannelBlocks samples(const Shape& x) {
  const int64_t pixels = x.elements(1, x.rank() - 1);
  return {x[0] * pixels, pixels};
}

// Calls run(T(), sample, first channel of the group, channels of the group) for every group of
// every sample of x [n, 2, c], in parallel.
template <class Run>
void each_group(CpuContext& ctx, const NormGroups& params, const TensorSpec& x, Run run) {
  const int64_t width = x.shape[2] / params.groups;
  visit_float(x.dtype, [&](auto zero) {
    ctx.pool().parallel_for(x.shape[0] * params.groups, [&](int64_t task) {
      run(zero, task / params.groups, task % params.groups * width, width);
    });
  });
}

// Returns the specs of two values for each group of x [n, 2, c], repeated for its channels.
Specs group_values(const TensorSpec& x) {
  return Specs(2, {compute_type(x.dtype), {x.shape[0], x.shape[2]}, {}});
}

// moments [n, 2, c] of each channel -> mean, 1 / stddev of its group: [n, c] each
class GroupNormFinalise final : public OpBase<GroupNormFinalise, NormGroups> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "group_norm_finalise"; }
  std::vector<OpAttribute> attributes() const override {
    return {{"groups", {static_cast<double>(params.groups)}},
            {"pixels", {static_cast<double>(params.pixels)}},
            {"eps", {params.eps}}};
  }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"moments"});
    check.floats();
    check.rank(0, 3);
    return group_values(in[0]);
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const int64_t c = in[0].spec.shape[2];
    each_group(ctx, params, in[0].spec, [&]<class T>(T, int64_t sample, int64_t at, int64_t width) {
      const T* moments = in[0].as<T>() + sample * 2 * c + at;
      double mean = 0, m2 = 0;
      for (int64_t j = 0; j < width; ++j) mean += moments[j];
      mean /= static_cast<double>(width);
      for (int64_t j = 0; j < width; ++j) {
        const double d = moments[j] - mean;
        m2 += moments[c + j] + static_cast<double>(params.pixels) * d * d;
      }
      const double count = static_cast<double>(width * params.pixels);
      std::fill_n(out[0].as<T>() + sample * c + at, width, static_cast<T>(mean));
      std::fill_n(out[1].as<T>() + sample * c + at, width,
                  static_cast<T>(1 / std::sqrt(m2 / count + params.eps)));
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) group_norm_finalise_cuda(ctx, params, in[0], out);
  }

  Cost cost(SpecView in) const override { return cost_with(in, 3 * in[0].shape.elements()); }
};

// sums [n, 2, c] of dy and dy xhat, gamma -> the means over each group of dy gamma and dy gamma
// xhat: [n, c] each
class GroupNormGradMeans final : public OpBase<GroupNormGradMeans, NormGroups> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "group_norm_grad_means"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"sums", "gamma"});
    check.floats();
    check.rank(0, 3);
    check.shape(1, {in[0].shape[2]}, "one for each channel");
    return group_values(in[0]);
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const int64_t c = in[0].spec.shape[2];
    each_group(ctx, params, in[0].spec, [&]<class T>(T, int64_t sample, int64_t at, int64_t width) {
      const T *sums = in[0].as<T>() + sample * 2 * c + at, *gamma = in[1].as<T>() + at;
      for (const Buffer& means : out) {
        double sum = 0;
        for (int64_t j = 0; j < width; ++j) sum += static_cast<double>(sums[j]) * gamma[j];
        std::fill_n(means.as<T>() + sample * c + at, width,
                    static_cast<T>(sum / static_cast<double>(width * params.pixels)));
        sums += c;
      }
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) group_norm_grad_means_cuda(ctx, params, in[0], in[1], out);
  }

  Cost cost(SpecView in) const override { return cost_with(in, 2 * in[0].shape.elements()); }
};

// y = (x - mean) inverse gamma + beta with mean and inverse [n, c]
class GroupNormNormalise final : public SamplePointwise {
 public:
  explicit GroupNormNormalise(NormGroups group)
      : SamplePointwise({"group_norm", stages::program<1>(stages::norm)}), group_(group) {}
  bool is_equivalent(const Op& other) const override {
    auto* that = dynamic_cast<const GroupNormNormalise*>(&other);
    return that != nullptr && that->group_ == group_;
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b01111}; }  // x, mean, inverse, gamma

  Tensors grad(const GradArgs& args) const override {
    const Tensor &x = args.inputs[0], &mean = args.inputs[1], &inverse = args.inputs[2];
    const Tensor &gamma = args.inputs[3], &dy = args.grad_outputs[0];
    const Tensor sums = block_gradient_sums(dy, x, mean, inverse, samples(x.shape()));
    Tensors grads(5);
    if (args.needs(0)) {
      const Tensors means = apply(std::make_shared<GroupNormGradMeans>(group_), {sums, gamma});
      grads[0] = sample_pointwise("group_norm_input_grad", stages::program<2>(stages::norm_grad),
                                  {dy, x, mean, inverse, gamma, means[0], means[1]});
    }
    if (args.needs(3) || args.needs(4)) {
      const Tensors folded = reduce_blocks(sums);
      grads[3] = folded[1];
      grads[4] = folded[0];
    }
    return grads;
  }

 private:
  NormGroups group_;
};

}  // namespace

Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const GroupNormParams& params) {
  const TensorSpec in[] = {x.spec(), gamma.spec(), beta.spec()};
  InputCheck check("group_norm", in, {"x", "gamma", "beta"});
  check.floats();
  const Shape& s = x.shape();
  if (s.rank() < 2) check.fail(fmt::format("x must have 2 axes or more, but has {}", s.rank()));
  for (int i = 1; i < 3; ++i) check.shape(i, {s.back()}, "one for each channel of x");
  if (params.groups < 1 || s.back() % params.groups != 0)
    check.fail(
        fmt::format("groups = {} must divide the {} channels of x", params.groups, s.back()));
  if (!(params.eps > 0)) check.fail(fmt::format("eps must be above 0, but is {}", params.eps));
  const ChannelBlocks blocks = samples(s);
  if (blocks.block_rows < 1) check.fail("the samples of x must have at least one pixel");
  const NormGroups group{params.groups, blocks.block_rows, params.eps};
  const Tensors stats =
      apply(std::make_shared<GroupNormFinalise>(group), {block_moments(detach(x), blocks)});
  return apply1(std::make_shared<GroupNormNormalise>(group), {x, stats[0], stats[1], gamma, beta});
}

}  // namespace tessera
