#include "tessera/layers/ops/batch_norm.h"

#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/layers/shared/normalise.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

// The small kernels, over raw memory; all vectors are [c].

constexpr int64_t kChannels = 64;  // channels of one task

// Merges the moments [blocks, 2, c] of blocks in the order of their index, with the formula of
// Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample
// variances", 1979). `variance` is unbiased.
template <class T>
void batch_norm_finalise(ThreadPool& pool, ChannelBlocks blocks, int64_t c, double eps,
                         const T* moments, T* mean, T* inv_stddev, T* variance) {
  pool.parallel_for((c + kChannels - 1) / kChannels, [&](int64_t task) {
    const int64_t first = task * kChannels, channels = std::min(kChannels, c - first);
    double m[kChannels] = {}, m2[kChannels] = {};
    for (int64_t b = 0; b < blocks.count(); ++b) {
      const double before = static_cast<double>(blocks.begin(b));
      const double size = static_cast<double>(blocks.size(b));
      const double share = size / (before + size), weight = before * share;
      const T* from = moments + b * 2 * c + first;
      for (int64_t j = 0; j < channels; ++j) {
        const double delta = static_cast<double>(from[j]) - m[j];
        m[j] += delta * share;
        m2[j] += static_cast<double>(from[c + j]) + delta * delta * weight;
      }
    }
    const double n = static_cast<double>(blocks.rows);
    for (int64_t j = 0; j < channels; ++j) {
      mean[first + j] = static_cast<T>(m[j]);
      inv_stddev[first + j] = static_cast<T>(1 / std::sqrt(m2[j] / n + eps));
      variance[first + j] = static_cast<T>(m2[j] / (n - 1));
    }
  });
}

template <class T>
void batch_norm_grad_finalise(ThreadPool& pool, int64_t blocks, int64_t rows, int64_t c,
                              const T* sums, const T* gamma, const T* inv_stddev,
                              const BatchNormGradOut<T>& out) {
  pool.parallel_for((c + kChannels - 1) / kChannels, [&](int64_t task) {
    const int64_t first = task * kChannels, channels = std::min(kChannels, c - first);
    double dbeta[kChannels] = {}, dgamma[kChannels] = {};
    for (int64_t b = 0; b < blocks; ++b) {
      const T* from = sums + b * 2 * c + first;
      for (int64_t j = 0; j < channels; ++j) {
        dbeta[j] += static_cast<double>(from[j]);
        dgamma[j] += static_cast<double>(from[c + j]);
      }
    }
    const double n = static_cast<double>(rows);
    for (int64_t j = 0; j < channels; ++j) {
      const double inverse = static_cast<double>(inv_stddev[first + j]);
      out.dbeta[first + j] = static_cast<T>(dbeta[j]);
      out.dgamma[first + j] = static_cast<T>(dgamma[j]);
      out.scale[first + j] = static_cast<T>(static_cast<double>(gamma[first + j]) * inverse);
      out.slope[first + j] = static_cast<T>(inverse * dgamma[j] / n);
      out.offset[first + j] = static_cast<T>(dbeta[j] / n);
    }
  });
}

struct FinaliseParams {
  ChannelBlocks blocks;
  double eps;
  bool operator==(const FinaliseParams&) const = default;
};

// moments -> mean, 1 / stddev, unbiased variance
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

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_float(out[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      batch_norm_finalise<T>(ctx.pool(), params.blocks, in[0].spec.shape[2], params.eps,
                             in[0].as<T>(), out[0].as<T>(), out[1].as<T>(), out[2].as<T>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        batch_norm_finalise_cuda<T>(ctx, params.blocks, in[0].spec.shape[2], params.eps,
                                    in[0].as<T>(), out[0].as<T>(), out[1].as<T>(), out[2].as<T>());
      });
  }

  // Counts 7 flops for each mean and its sum of squares.
  Cost cost(SpecView in) const override { return cost_with(in, 7 * in[0].shape.elements() / 2); }
};

struct StatisticsUpdateParams {
  double momentum;
  bool operator==(const StatisticsUpdateParams&) const = default;
};

// running mean, running variance, mean, variance -> next version of the running statistics
class BatchNormUpdate final : public OpBase<BatchNormUpdate, StatisticsUpdateParams> {
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
    visit_float(out[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      const T keep = static_cast<T>(1 - params.momentum), take = static_cast<T>(params.momentum);
      for (size_t i = 0; i < 2; ++i) {
        const T *old = in[i].as<T>(), *batch = in[i + 2].as<T>();
        T* running = out[i].as<T>();
        for (int64_t j = 0; j < out[i].elements(); ++j)
          running[j] = keep * old[j] + take * batch[j];
      }
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        batch_norm_update_cuda<T>(ctx, params.momentum, out[0].elements(),
                                  {in[0].as<T>(), in[1].as<T>(), in[2].as<T>(), in[3].as<T>(),
                                   out[0].as<T>(), out[1].as<T>()});
      });
  }

  Cost cost(SpecView in) const override { return cost_with(in, 3 * 2 * in[0].shape.elements()); }
};

struct GradFinaliseParams {
  int64_t rows;  // rows of x
  bool operator==(const GradFinaliseParams&) const = default;
};

// sums over blocks, gamma, 1 / stddev -> dgamma, dbeta, scale, slope, offset
class BatchNormGradFinalise final : public OpBase<BatchNormGradFinalise, GradFinaliseParams> {
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
    visit_float(out[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      batch_norm_grad_finalise<T>(
          ctx.pool(), in[0].spec.shape[0], params.rows, in[0].spec.shape[2], in[0].as<T>(),
          in[1].as<T>(), in[2].as<T>(),
          {out[0].as<T>(), out[1].as<T>(), out[2].as<T>(), out[3].as<T>(), out[4].as<T>()});
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        batch_norm_grad_finalise_cuda<T>(
            ctx, in[0].spec.shape[0], params.rows, in[0].spec.shape[2], in[0].as<T>(),
            in[1].as<T>(), in[2].as<T>(),
            {out[0].as<T>(), out[1].as<T>(), out[2].as<T>(), out[3].as<T>(), out[4].as<T>()});
      });
  }

  Cost cost(SpecView in) const override {
    return cost_with(in, in[0].shape.elements() + 4 * in[1].shape.elements());
  }
};

class BatchNormNormalise final : public Normalise {
 public:
  explicit BatchNormNormalise(DType result) : Normalise("batch_norm", result) {}
  bool is_equivalent(const Op& other) const override {
    auto* that = dynamic_cast<const BatchNormNormalise*>(&other);
    return that != nullptr && that->pointwise() == pointwise();
  }

  Tensors grad(const GradArgs& args) const override {
    const Tensor &x = args.inputs[0], &mean = args.inputs[1], &inverse = args.inputs[2];
    const Tensor &gamma = args.inputs[3], &dy = args.grad_outputs[0];
    const ChannelBlocks blocks = channel_blocks(x.spec());
    const Tensor sums = block_gradient_sums(dy, x, mean, inverse, blocks);
    Tensors folded = apply(std::make_shared<BatchNormGradFinalise>(GradFinaliseParams{blocks.rows}),
                           {sums, gamma, inverse});
    Tensors grads(5);
    if (args.needs(0))
      grads[0] =
          tessera::pointwise("batch_norm_input_grad", stages::program<2>(stages::batch_norm_grad),
                             {dy, x, mean, folded[3], folded[4], folded[2]});
    grads[3] = folded[0];
    grads[4] = folded[1];
    return grads;
  }
};

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

// y = x scale + shift
Tensor scale_and_shift(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  ScalarBuilder y(3), dx(2), dscale(2);
  return tessera::pointwise("batch_norm", y.build(y.add(y.mul(y.in(0), y.in(1)), y.in(2))),
                            {x, scale, shift},
                            {{{1, PointwiseGrad::kGradient}, dx.build(dx.mul(0, 1))},
                             {{0, PointwiseGrad::kGradient}, dscale.build(dscale.mul(0, 1))},
                             {{PointwiseGrad::kGradient}, {.inputs = 1, .code = {}}}},
                            x.dtype());
}

// scale = gamma / sqrt(variance + eps), shift = beta - mean scale; not rounded to 16 bits
Tensor evaluate(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                const Tensor& variance, double eps) {
  const auto wide = [](const Tensor& t) { return cast(t, compute_type(t.dtype())); };
  const Tensor scale = wide(gamma) / sqrt(wide(variance) + eps);
  return scale_and_shift(x, scale, wide(beta) - wide(mean) * scale);
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
  apply(std::make_shared<BatchNormUpdate>(StatisticsUpdateParams{params.momentum}),
        {running_mean, running_var, stats[0], stats[2]});
  return apply1(std::make_shared<BatchNormNormalise>(x.dtype()),
                {x, stats[0], stats[1], gamma, beta});
}

}  // namespace tessera
