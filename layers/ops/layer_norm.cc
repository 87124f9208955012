#include "tessera/layers/ops/layer_norm.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/layers/ops/layer_norm_simd.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/for_rows.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/layers/shared/normalise.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

template <class T>
const LayerNormMicrokernelsOf<T>& norm_microkernels() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(layer_norm_microkernels));
}

// Calls fn(first row, rows) for chunks of rows.
template <class F>
void for_row_chunks(ThreadPool& pool, const Shape& x, F&& fn) {
  const int64_t c = std::max<int64_t>(x.back(), 1);
  for_row_ranges(pool, x.elements() / c, c, 16384,
                 [&](int64_t first, int64_t end) { fn(first, end - first); });
}

// x -> mean, 1 / stddev of each row
class LayerMoments final : public OpBase<LayerMoments, LayerNormParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "layer_moments"; }
  std::vector<OpAttribute> attributes() const override { return {{"eps", {params.eps}}}; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    check.floats();
    Shape rows = in[0].shape;
    rows[-1] = 1;
    return Specs(2, {compute_type(in[0].dtype), rows, {}});
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const int64_t c = in[0].spec.shape.back();
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      for_row_chunks(ctx.pool(), in[0].spec.shape, [&](int64_t first, int64_t rows) {
        T *mean = out[0].as<T>() + first, *inverse = out[1].as<T>() + first;
        norm_microkernels<T>().moments(in[0].as<T>() + first * c, rows, c, mean, inverse);
        for (int64_t r = 0; r < rows; ++r)
          inverse[r] = static_cast<T>(1 / std::sqrt(static_cast<double>(inverse[r]) + params.eps));
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) layer_moments_cuda(ctx, params.eps, in[0], out);
  }

  Cost cost(SpecView in) const override { return cost_with(in, 5 * in[0].shape.elements()); }
};

// dy, x, gamma, mean, inverse -> for each row the means of dy gamma and of dy gamma xhat
class LayerNormGradMeans final : public OpBase<LayerNormGradMeans> {
 public:
  std::string_view name() const override { return "layer_norm_grad_means"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy", "x", "gamma", "mean", "inverse_deviation"});
    check.floats();
    check.shape(0, in[1].shape, "like x");
    return Specs(2, in[3]);
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const int64_t c = in[1].spec.shape.back();
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      for_row_chunks(ctx.pool(), in[1].spec.shape, [&](int64_t first, int64_t rows) {
        norm_microkernels<T>().gradient_means(in[0].as<T>() + first * c, in[1].as<T>() + first * c,
                                              in[2].as<T>(), in[3].as<T>() + first,
                                              in[4].as<T>() + first, rows, c,
                                              out[0].as<T>() + first, out[1].as<T>() + first);
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) layer_gradient_means_cuda(ctx, in, out);
  }

  Cost cost(SpecView in) const override { return cost_with(in, 6 * in[0].shape.elements()); }
};

// dy, x, mean, inverse -> [blocks, 2, c]: the sums of dy and of dy xhat over blocks of rows
class LayerNormGradSums final : public OpBase<LayerNormGradSums, ChannelBlocks> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "layer_norm_grad_sums"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy", "x", "mean", "inverse_deviation"});
    check.floats();
    check.shape(0, in[1].shape, "like x");
    return {{compute_type(in[0].dtype), {params.count(), 2, in[0].shape.back()}, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const int64_t c = in[1].spec.shape.back();
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      ctx.pool().parallel_for(params.count(), [&](int64_t block) {
        const int64_t first = params.begin(block);
        T* sums = out[0].as<T>() + block * 2 * c;
        norm_microkernels<T>().gradient_sums(in[0].as<T>() + first * c, in[1].as<T>() + first * c,
                                             in[2].as<T>() + first, in[3].as<T>() + first,
                                             params.size(block), c, c, sums, sums + c);
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_float(in[0].spec.dtype, [&]<class T>(T) {
        row_gradient_sums_cuda(ctx, params, in[1].spec.shape.back(), in[0].as<const T>(),
                               in[1].as<const T>(), in[2].as<const T>(), in[3].as<const T>(),
                               out[0].as<T>());
      });
  }

  Cost cost(SpecView in) const override { return cost_with(in, 5 * in[0].shape.elements()); }
};

Tensors layer_norm_grad(const GradArgs& args) {
  const Tensor &x = args.inputs[0], &mean = args.inputs[1], &inverse = args.inputs[2];
  const Tensor &gamma = args.inputs[3], &dy = args.grad_outputs[0];
  Tensors grads(5);
  if (args.needs(0)) {
    const Tensors means =
        apply(std::make_shared<LayerNormGradMeans>(), {dy, x, gamma, mean, inverse});
    grads[0] = pointwise("layer_norm_input_grad", stages::program<2>(stages::norm_grad),
                         {dy, x, mean, inverse, gamma, means[0], means[1]});
  }
  if (args.needs(3) || args.needs(4)) {
    const Tensors sums = reduce_blocks(apply1(
        std::make_shared<LayerNormGradSums>(channel_blocks(x.spec())), {dy, x, mean, inverse}));
    grads[3] = sums[1];
    grads[4] = sums[0];
  }
  return grads;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const LayerNormParams& params) {
  const TensorSpec in[] = {x.spec(), gamma.spec(), beta.spec()};
  InputCheck check("layer_norm", in, {"x", "gamma", "beta"});
  check.floats();
  if (x.shape().rank() == 0) check.fail("x must have at least one axis");
  for (int i = 1; i < 3; ++i) check.shape(i, {x.shape().back()}, "one for each channel of x");
  if (!(params.eps > 0)) check.fail(fmt::format("eps must be above 0, but is {}", params.eps));
  const Tensors stats = apply(std::make_shared<LayerMoments>(params), {detach(x)});
  return apply1(std::make_shared<Normalise>("layer_norm", x.dtype(), layer_norm_grad),
                {x, stats[0], stats[1], gamma, beta});
}

}  // namespace tessera
