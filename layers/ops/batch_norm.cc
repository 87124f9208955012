#include "tessera/layers/ops/batch_norm.h"

#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/for_rows.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/layers/shared/normalise.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

constexpr int64_t kChannels = 64;  // channels of one task

struct FinaliseParams {
  ChannelBlocks blocks;
  double eps;
  bool operator==(const FinaliseParams&) const = default;
};

// moments [blocks, 2, c] -> mean, 1 / stddev, unbiased variance [c]
class BatchNormFinalise final : public OpBase<BatchNormFinalise, FinaliseParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "batch_norm_finalise"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"moments"});
    check.floats();
    check.rank(0, 3);
    return Specs(3, {in[0].dtype, {in[0].shape[2]}, {}});
  }

  // Merges the blocks in the order of their index, with the formula of Chan, Golub and LeVeque
  // ("Updating formulae and a pairwise algorithm for computing sample variances", 1979).
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const ChannelBlocks& blocks = params.blocks;
    const int64_t c = in[0].spec.shape[2];
    visit_float(out[0].spec.dtype, [&]<class T>(T) {
      for_row_ranges(ctx.pool(), c, 1, kChannels, [&](int64_t first, int64_t end) {
        const int64_t channels = end - first;
        double m[kChannels] = {}, m2[kChannels] = {};
        for (int64_t b = 0; b < blocks.count(); ++b) {
          const double before = static_cast<double>(blocks.begin(b));
          const double size = static_cast<double>(blocks.size(b));
          const double share = size / (before + size), weight = before * share;
          const T* from = in[0].as<T>() + b * 2 * c + first;
          for (int64_t j = 0; j < channels; ++j) {
            const double delta = static_cast<double>(from[j]) - m[j];
            m[j] += delta * share;
            m2[j] += static_cast<double>(from[c + j]) + delta * delta * weight;
          }
        }
        const double n = static_cast<double>(blocks.rows);
        for (int64_t j = 0; j < channels; ++j) {
          out[0].as<T>()[first + j] = static_cast<T>(m[j]);
          out[1].as<T>()[first + j] = static_cast<T>(1 / std::sqrt(m2[j] / n + params.eps));
          out[2].as<T>()[first + j] = static_cast<T>(m2[j] / (n - 1));
        }
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) batch_norm_finalise_cuda(ctx, params.blocks, params.eps, in[0], out);
  }

  // Counts 7 flops for each mean and its sum of squares.
  Cost cost(SpecView in) const override { return cost_with(in, 7 * in[0].shape.elements() / 2); }
};

// running mean, running variance, mean, variance -> next version of the running statistics.
// params: the momentum.
class BatchNormUpdate final : public OpBase<BatchNormUpdate, double> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "batch_norm_update"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"running_mean", "running_var", "mean", "variance"});
    check.floats();
    for (int i = 1; i < 4; ++i) check.shape(i, in[0].shape, "like running_mean");
    return {in[0], in[1]};
  }

  int updates(int output) const override { return output; }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if (!may_update(ctx, {in[2], in[3]})) return;
    visit_float(out[0].spec.dtype, [&]<class T>(T) {
      const T keep = static_cast<T>(1 - params), take = static_cast<T>(params);
      for (size_t i = 0; i < 2; ++i) {
        const T *old = in[i].as<T>(), *batch = in[i + 2].as<T>();
        T* running = out[i].as<T>();
        for (int64_t j = 0; j < out[i].elements(); ++j)
          running[j] = keep * old[j] + take * batch[j];
      }
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) batch_norm_update_cuda(ctx, params, in, out);
  }

  Cost cost(SpecView in) const override { return cost_with(in, 3 * 2 * in[0].shape.elements()); }
};

// sums over blocks, gamma, 1 / stddev -> dgamma, dbeta, scale, slope, offset.
// params: the rows of x.
class BatchNormGradFinalise final : public OpBase<BatchNormGradFinalise, int64_t> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "batch_norm_grad_finalise"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"sums", "gamma", "inverse_deviation"});
    check.floats();
    check.rank(0, 3);
    const Shape channels{in[0].shape[2]};
    check.shape(1, channels, "one for each channel");
    check.shape(2, channels, "one for each channel");
    return Specs(5, {in[0].dtype, channels, {}});
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const int64_t blocks = in[0].spec.shape[0], c = in[0].spec.shape[2];
    visit_float(out[0].spec.dtype, [&]<class T>(T) {
      for_row_ranges(ctx.pool(), c, 1, kChannels, [&](int64_t first, int64_t end) {
        const int64_t channels = end - first;
        double dbeta[kChannels] = {}, dgamma[kChannels] = {};
        for (int64_t b = 0; b < blocks; ++b) {
          const T* from = in[0].as<T>() + b * 2 * c + first;
          for (int64_t j = 0; j < channels; ++j) {
            dbeta[j] += static_cast<double>(from[j]);
            dgamma[j] += static_cast<double>(from[c + j]);
          }
        }
        const double n = static_cast<double>(params);
        const auto put = [&](size_t output, int64_t j, double value) {
          out[output].as<T>()[first + j] = static_cast<T>(value);
        };
        for (int64_t j = 0; j < channels; ++j) {
          const double inverse = static_cast<double>(in[2].as<T>()[first + j]);
          put(0, j, dgamma[j]);
          put(1, j, dbeta[j]);
          put(2, j, static_cast<double>(in[1].as<T>()[first + j]) * inverse);
          put(3, j, inverse * dgamma[j] / n);
          put(4, j, dbeta[j] / n);
        }
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) batch_norm_grad_finalise_cuda(ctx, params, in, out);
  }

  Cost cost(SpecView in) const override {
    return cost_with(in, in[0].shape.elements() + 4 * in[1].shape.elements());
  }
};

Tensors batch_norm_grad(const GradArgs& args) {
  const Tensor &x = args.inputs[0], &mean = args.inputs[1], &inverse = args.inputs[2];
  const Tensor &gamma = args.inputs[3], &dy = args.grad_outputs[0];
  const ChannelBlocks blocks = channel_blocks(x.spec());
  const Tensor sums = block_gradient_sums(dy, x, mean, inverse, blocks);
  const Tensors folded =
      apply(std::make_shared<BatchNormGradFinalise>(blocks.rows), {sums, gamma, inverse});
  Tensors grads(5);
  if (args.needs(0))
    grads[0] = pointwise("batch_norm_input_grad", stages::program<2>(stages::batch_norm_grad),
                         {dy, x, mean, folded[3], folded[4], folded[2]});
  grads[3] = folded[0];
  grads[4] = folded[1];
  return grads;
}

void check_inputs(const Tensors& tensors, const BatchNormParams& params, bool training) {
  Specs in;
  for (const Tensor& tensor : tensors) in.push_back(tensor.spec());
  InputCheck check("batch_norm", in, {"x", "gamma", "beta", "running_mean", "running_var"});
  check.floats();
  const Shape& x = in[0].shape;
  if (x.rank() < 2) check.fail(fmt::format("x must have 2 axes or more, but has {}", x.rank()));
  for (int i = 1; i < 5; ++i) check.shape(i, {x.back()}, "one for each channel of x");
  if (!(params.eps > 0)) check.fail(fmt::format("eps must be above 0, but is {}", params.eps));
  if (!(params.momentum >= 0 && params.momentum <= 1))
    check.fail(fmt::format("momentum must be between 0 and 1, but is {}", params.momentum));
  if (training && x.elements(0, x.rank() - 1) < 2)
    check.fail(
        "each channel must have at least two values for a variance in training; use a larger "
        "batch, or evaluation");
}

// y = x scale + shift, scale = gamma / sqrt(variance + eps), shift = beta - mean scale; scale and
// shift are not rounded to 16 bits
Tensor evaluate(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                const Tensor& variance, double eps) {
  const auto wide = [](const Tensor& t) { return cast(t, compute_type(t.dtype())); };
  const Tensor scale = wide(gamma) / sqrt(wide(variance) + eps);
  const Tensor shift = wide(beta) - wide(mean) * scale;
  ScalarBuilder y(3), dx(2), dscale(2);
  return pointwise("batch_norm", y.build(y.add(y.mul(y.in(0), y.in(1)), y.in(2))),
                   {x, scale, shift},
                   {{{1, PointwiseGrad::kGradient}, dx.build(dx.mul(0, 1))},
                    {{0, PointwiseGrad::kGradient}, dscale.build(dscale.mul(0, 1))},
                    {{PointwiseGrad::kGradient}, {.inputs = 1, .code = {}}}},
                   x.dtype());
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormParams& params) {
  check_inputs({x, gamma, beta, running_mean, running_var}, params, is_training());
  if (!is_training()) return evaluate(x, gamma, beta, running_mean, running_var, params.eps);
  const ChannelBlocks blocks = channel_blocks(x.spec());
  const Tensors stats =
      apply(std::make_shared<BatchNormFinalise>(FinaliseParams{blocks, params.eps}),
            {block_moments(detach(x), blocks)});
  apply(std::make_shared<BatchNormUpdate>(params.momentum),
        {running_mean, running_var, stats[0], stats[2]});
  return apply1(std::make_shared<Normalise>("batch_norm", x.dtype(), batch_norm_grad),
                {x, stats[0], stats[1], gamma, beta});
}

}  // namespace tessera
