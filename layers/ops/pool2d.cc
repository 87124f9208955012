#include "tessera/layers/ops/pool2d.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/prepare.h"
#include "tessera/engine/tape.h"
#include "tessera/layers/ops/pool2d_cpu.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/epilogue.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

// The attributes of all ops below.
struct PoolOpParams {
  Pool2dParams pool;
  Size2 image = 0;                                      // gradients: h and w of x
  bool positions = false;                               // maximum: a second output for the gradient
  ScalarProgram prologue = plain_epilogue(DType::f32);  // maximum: applied to x as it is read
  ScalarProgram epilogue = plain_epilogue(DType::f32);  // maximum's gradient: applied to dx
  bool operator==(const PoolOpParams&) const = default;
};

std::vector<OpAttribute> attributes_of(const Pool2dParams& p) {
  const auto pair = [](Size2 s) {
    return std::vector<double>{static_cast<double>(s.h), static_cast<double>(s.w)};
  };
  return {{"kernel", pair(p.kernel)},
          {"stride", pair(p.stride.value_or(p.kernel))},
          {"padding", pair(p.padding)},
          {"count_include_pad", {p.count_include_pad ? 1.0 : 0.0}},
          {"ceil_mode", {p.ceil_mode ? 1.0 : 0.0}}};
}

PoolShape pool_shape(const Pool2dParams& p, const Shape& x) {
  const Size2 stride = p.stride.value_or(p.kernel);
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .kernel_h = p.kernel.h,
          .kernel_w = p.kernel.w,
          .stride_h = stride.h,
          .stride_w = stride.w,
          .pad_h = p.padding.h,
          .pad_w = p.padding.w,
          .count_include_pad = p.count_include_pad,
          .ceil_mode = p.ceil_mode};
}

// Checks the settings and returns the shape of y.
Shape pooled(const InputCheck& check, const Pool2dParams& p, const Shape& x) {
  const Size2 stride = p.stride.value_or(p.kernel);
  if (p.kernel.h < 1 || p.kernel.w < 1)
    check.fail(fmt::format("kernel must be at least 1, but is {}", p.kernel.text()));
  if (stride.h < 1 || stride.w < 1)
    check.fail(fmt::format("stride must be at least 1, but is {}", stride.text()));
  if (p.padding.h < 0 || p.padding.w < 0 || p.padding.h >= p.kernel.h || p.padding.w >= p.kernel.w)
    check.fail(fmt::format("padding must be 0 or more and smaller than the kernel {}, but is {}",
                           p.kernel.text(), p.padding.text()));
  if (x[1] < 1 || x[2] < 1) check.fail("x has no pixels, so its windows would lie in the padding");
  const Size2 padded{x[1] + 2 * p.padding.h, x[2] + 2 * p.padding.w};
  if (p.kernel.h > padded.h || p.kernel.w > padded.w)
    check.fail(
        fmt::format("the kernel has {} pixels, but x has {} with its padding; use a smaller kernel",
                    p.kernel.text(), padded.text()));
  const PoolShape s = pool_shape(p, x);
  return {s.n, s.out_h(), s.out_w(), s.c};
}

// Counts one comparison or addition for each pixel of each window of y. An average has one addition
// less, but a division.
int64_t window_flops(const Pool2dParams& p, const Shape& y) {
  return y.elements() * p.kernel.h * p.kernel.w;
}

Shape image_of(const Shape& dy, Size2 image) { return {dy[0], image.h, image.w, dy[3]}; }

// The derived class has `kPass`, and shape_of(), the shape of the pooling with these inputs.
template <class Derived>
class PoolOp : public OpBase<Derived, PoolOpParams> {
 public:
  using OpBase<Derived, PoolOpParams>::OpBase;
  bool takes_half(DeviceKind, SpecView in) const override {
    return in[0].dtype == this->infer(in)[0].dtype;
  }
  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    if (!target.device.is_cpu()) return {{}};
    const auto& self = static_cast<const Derived&>(*this);
    const DType type = in[0].dtype;
    const int64_t elements = pool2d_scratch(Derived::kPass, self.shape_of(in), is_half(type),
                                            self.computes_input(), target.threads);
    return {{.scratch_bytes = static_cast<size_t>(elements) * size_of(compute_type(type))}};
  }
  bool computes_input() const { return false; }
};

class MaxPoolGradKernel final : public Kernel {
 public:
  MaxPoolGradKernel(const PoolShape& shape, PointwisePlan epilogue)
      : shape_(shape), epilogue_(std::move(epilogue)) {}

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    EpilogueRun extra(epilogue_, in.subspan(2), out[0]);
    visit_any_float(out[0].spec.dtype, [&](auto zero) {
      using S = decltype(zero);
      max_pool2d_grad<S>(static_cast<CpuContext&>(ctx).pool(), shape_, in[0].as<S>(),
                         in[1].as<uint8_t>(), out[0].as<S>(), extra.hook<Computed<S>>(),
                         scratch.as<Computed<S>>());
    });
  }

 private:
  const PoolShape shape_;
  const PointwisePlan epilogue_;
};

class MaxPool2dGrad final : public PoolOp<MaxPool2dGrad>, public HasEpilogue {
 public:
  static constexpr PoolPass kPass = PoolPass::max_grad;
  using PoolOp::PoolOp;
  PoolShape shape_of(SpecView in) const {
    return pool_shape(params.pool, image_of(in[0].shape, params.image));
  }
  std::string_view name() const override { return "max_pool2d_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in.first(std::min<size_t>(in.size(), 2)), {"dy", "positions"});
    check.floats({0});
    check.dtype(1, DType::u8);
    check.rank(0, 4);
    check.shape(1, in[0].shape, "like dy");
    const Shape x = image_of(in[0].shape, params.image);
    check.shape(0, pooled(check, params.pool, x), "the output shape of max_pool2d");
    return {{result_type(params.epilogue, compute_type(in[0].dtype)), x, {}}};
  }

  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override {
    if (!ctx.device().is_cpu()) return Op::prepare(in, ctx, chosen);
    const TensorSpec dx = infer(in)[0], sums = computed(dx);
    const DType stored = takes_half(DeviceKind::cpu, in) ? dx.dtype : sums.dtype;
    return std::make_unique<MaxPoolGradKernel>(
        shape_of(in), epilogue_plan(params.epilogue, in.subspan(2), sums, stored));
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_any_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        max_pool2d_grad_cuda<T>(ctx, pool_shape(params.pool, out[0].spec.shape), in[0].as<T>(),
                                in[1].as<uint8_t>(), out[0].as<T>());
      });
  }

  const ScalarProgram& epilogue() const override { return params.epilogue; }
  std::optional<FusedOp> fuse_epilogue(const ScalarProgram& p, int fused_input, SpecView in,
                                       SpecView p_in) const override {
    if (!in[0].device.is_cpu()) return std::nullopt;
    auto whole = join_epilogue(params.epilogue, p, fused_input, infer(in)[0], p_in);
    if (!whole) return std::nullopt;
    PoolOpParams joined = params;
    joined.epilogue = *whole;
    return FusedOp{std::make_shared<MaxPool2dGrad>(joined), join_inputs(in.size(), p, fused_input)};
  }
  std::optional<FusedOp> fuse_prologue(const ScalarProgram& p, int input, SpecView in,
                                       SpecView p_in, const Target&) const override {
    if (!in[0].device.is_cpu() || input < 2) return std::nullopt;
    const TensorSpec& made = in[static_cast<size_t>(input)];
    if (made.shape != infer(in)[0].shape || primary_input(p, made, p_in) < 0) return std::nullopt;
    auto whole = join_prologue(params.epilogue, p, input - 1);
    if (!whole) return std::nullopt;
    PoolOpParams joined = params;
    joined.epilogue = *std::move(whole);
    FusedOp fused{std::make_shared<MaxPool2dGrad>(joined), {}};
    for (int i = 0; i < static_cast<int>(in.size()); ++i)
      if (i != input) fused.inputs.push_back(i);
    for (int k = 0; k < p.inputs; ++k) fused.inputs.push_back(-1 - k);
    return fused;
  }
  Cost cost(SpecView in) const override {
    return cost_with(in, in[0].shape.elements() + epilogue_flops(params.epilogue, infer(in)[0]));
  }
};

// Pools the result of the prologue.
class MaxPoolKernel final : public Kernel {
 public:
  MaxPoolKernel(const PoolShape& shape, PointwisePlan prologue)
      : shape_(shape), prologue_(std::move(prologue)) {}

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    EpilogueRun x(prologue_, in.subspan(1), in[0]);
    visit_any_float(out[0].spec.dtype, [&](auto zero) {
      using S = decltype(zero);
      using T = Computed<S>;
      const Prologue<T> read{[](void* run, T* to, int64_t first, int64_t count) {
                               static_cast<const EpilogueRun*>(run)->apply_to(to, first, count);
                             },
                             &x};
      max_pool2d<S>(static_cast<CpuContext&>(ctx).pool(), shape_, nullptr, read, out[0].as<S>(),
                    out.size() > 1 ? out[1].as<uint8_t>() : nullptr, scratch.as<T>());
    });
  }

 private:
  const PoolShape shape_;
  const PointwisePlan prologue_;
};

class MaxPool2d final : public PoolOp<MaxPool2d> {
 public:
  static constexpr PoolPass kPass = PoolPass::max;
  using PoolOp::PoolOp;
  PoolShape shape_of(SpecView in) const { return pool_shape(params.pool, in[0].shape); }
  bool computes_input() const { return !params.prologue.code.empty(); }
  std::string_view name() const override { return "max_pool2d"; }
  std::vector<OpAttribute> attributes() const override { return attributes_of(params.pool); }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in.first(std::min<size_t>(in.size(), 1)), {"x"});
    check.floats();
    check.rank(0, 4);
    const Shape y = pooled(check, params.pool, in[0].shape);
    if (params.pool.kernel.h * params.pool.kernel.w > 256)
      check.fail(fmt::format(
          "a window may have at most 256 pixels, but the kernel {} has {}; pool in two steps",
          params.pool.kernel.text(), params.pool.kernel.h * params.pool.kernel.w));
    // The maximum needs no rounding.
    const DType type =
        computes_input() ? result_type(params.prologue, compute_type(in[0].dtype)) : in[0].dtype;
    Specs out = {{type, y, {}}};
    if (params.positions) out.push_back({DType::u8, y, {}});
    return out;
  }

  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override {
    if (!computes_input()) return Op::prepare(in, ctx, chosen);
    PointwisePlan prologue =
        epilogue_plan(params.prologue, in.subspan(1), in[0], compute_type(in[0].dtype));
    if (prologue.is_identity()) return Op::prepare(in, ctx, chosen);  // a cast of converted inputs
    return std::make_unique<MaxPoolKernel>(shape_of(in), std::move(prologue));
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    visit_any_float(out[0].spec.dtype, [&](auto zero) {
      using S = decltype(zero);
      max_pool2d<S>(ctx.pool(), pool_shape(params.pool, in[0].spec.shape), in[0].as<S>(), {},
                    out[0].as<S>(), params.positions ? out[1].as<uint8_t>() : nullptr,
                    scratch.as<Computed<S>>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_any_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        max_pool2d_cuda<T>(ctx, pool_shape(params.pool, in[0].spec.shape), in[0].as<T>(),
                           out[0].as<T>(), params.positions ? out[1].as<uint8_t>() : nullptr);
      });
  }

  bool differentiable() const override { return params.positions; }
  Saved saved() const override { return {.outputs = 0b10}; }

  Tensors grad(const GradArgs& args) const override {
    const Shape& x = args.input_specs[0].shape;
    const DType dtype = args.input_specs[0].dtype;
    return {
        apply1(std::make_shared<MaxPool2dGrad>(PoolOpParams{
                   .pool = params.pool, .image = {x[1], x[2]}, .epilogue = plain_epilogue(dtype)}),
               {args.grad_outputs[0], args.outputs[1]})};
  }

  std::optional<FusedOp> fuse_prologue(const ScalarProgram& p, int input, SpecView in,
                                       SpecView p_in, const Target&) const override {
    if (!in[0].device.is_cpu() || input != 0 || computes_input()) return std::nullopt;
    const int main = primary_input(p, in[0], p_in);
    if (main < 0) return std::nullopt;
    PoolOpParams joined = params;
    joined.prologue = move_input_first(p, main);
    FusedOp fused{std::make_shared<MaxPool2d>(joined), {-1 - main}};
    for (int k = 0; k < p.inputs; ++k)
      if (k != main) fused.inputs.push_back(-1 - k);
    return fused;
  }

  Cost cost(SpecView in) const override {
    return cost_with(
        in, window_flops(params.pool, infer(in)[0].shape) + epilogue_flops(params.prologue, in[0]));
  }
};

class AveragePool2dGrad final : public PoolOp<AveragePool2dGrad> {
 public:
  static constexpr PoolPass kPass = PoolPass::average_grad;
  using PoolOp::PoolOp;
  PoolShape shape_of(SpecView in) const {
    return pool_shape(params.pool, image_of(in[0].shape, params.image));
  }
  std::string_view name() const override { return "average_pool2d_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy"});
    check.floats();
    check.rank(0, 4);
    const Shape x = image_of(in[0].shape, params.image);
    check.shape(0, pooled(check, params.pool, x), "the output shape of average_pool2d");
    return {{in[0].dtype, x, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    visit_any_float(out[0].spec.dtype, [&](auto zero) {
      using S = decltype(zero);
      average_pool2d_grad<S>(ctx.pool(), pool_shape(params.pool, out[0].spec.shape), in[0].as<S>(),
                             out[0].as<S>(), scratch.as<Computed<S>>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_any_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        average_pool2d_grad_cuda<T>(ctx, pool_shape(params.pool, out[0].spec.shape), in[0].as<T>(),
                                    out[0].as<T>());
      });
  }

  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {average_pool2d(args.grad_outputs[0], params.pool)};
  }

  Cost cost(SpecView in) const override {
    return cost_with(in, window_flops(params.pool, in[0].shape));
  }
};

class AveragePool2d final : public PoolOp<AveragePool2d> {
 public:
  static constexpr PoolPass kPass = PoolPass::average;
  using PoolOp::PoolOp;
  PoolShape shape_of(SpecView in) const { return pool_shape(params.pool, in[0].shape); }
  std::string_view name() const override { return "average_pool2d"; }
  std::vector<OpAttribute> attributes() const override { return attributes_of(params.pool); }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    check.floats();
    check.rank(0, 4);
    return {{in[0].dtype, pooled(check, params.pool, in[0].shape), {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    visit_any_float(out[0].spec.dtype, [&](auto zero) {
      using S = decltype(zero);
      average_pool2d<S>(ctx.pool(), pool_shape(params.pool, in[0].spec.shape), in[0].as<S>(),
                        out[0].as<S>(), scratch.as<Computed<S>>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_any_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        average_pool2d_cuda<T>(ctx, pool_shape(params.pool, in[0].spec.shape), in[0].as<T>(),
                               out[0].as<T>());
      });
  }

  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    const Shape& x = args.input_specs[0].shape;
    return {apply1(std::make_shared<AveragePool2dGrad>(
                       PoolOpParams{.pool = params.pool, .image = {x[1], x[2]}}),
                   {args.grad_outputs[0]})};
  }

  Cost cost(SpecView in) const override {
    return cost_with(in, window_flops(params.pool, infer(in)[0].shape));
  }
};

// Returns the shape of one window over each image of x.
PoolShape global_shape(const Shape& x) {
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .kernel_h = x[1],
          .kernel_w = x[2],
          .stride_h = x[1],
          .stride_w = x[2]};
}

// dx[b,i,j,k] = dy[b,k] / (h w)
class GlobalAveragePoolGrad final : public PoolOp<GlobalAveragePoolGrad> {
 public:
  static constexpr PoolPass kPass = PoolPass::average_grad;
  using PoolOp::PoolOp;
  PoolShape shape_of(SpecView in) const { return global_shape(infer(in)[0].shape); }
  std::string_view name() const override { return "global_average_pool_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy"});
    check.floats();
    check.rank(0, 2);
    return {{in[0].dtype, {in[0].shape[0], params.image.h, params.image.w, in[0].shape[1]}, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    visit_any_float(out[0].spec.dtype, [&](auto zero) {
      using S = decltype(zero);
      global_average_pool_grad<S>(ctx.pool(), global_shape(out[0].spec.shape), in[0].as<S>(),
                                  out[0].as<S>(), scratch.as<Computed<S>>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_any_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        const Shape& x = out[0].spec.shape;
        global_average_pool_grad_cuda<T>(ctx, x[0], x[1] * x[2], x[3], in[0].as<T>(),
                                         out[0].as<T>());
      });
  }

  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {global_average_pool(args.grad_outputs[0])};
  }

  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

class GlobalAveragePool final : public PoolOp<GlobalAveragePool> {
 public:
  static constexpr PoolPass kPass = PoolPass::average;
  PoolShape shape_of(SpecView in) const { return global_shape(in[0].shape); }
  std::string_view name() const override { return "global_average_pool"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    check.floats();
    check.rank(0, 4);
    const Shape& x = in[0].shape;
    if (x[1] * x[2] == 0) check.fail("the images of x must have at least one pixel");
    return {{in[0].dtype, {x[0], x[3]}, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    visit_any_float(out[0].spec.dtype, [&](auto zero) {
      using S = decltype(zero);
      global_average_pool<S>(ctx.pool(), global_shape(in[0].spec.shape), in[0].as<S>(),
                             out[0].as<S>(), scratch.as<Computed<S>>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_any_float(out[0].spec.dtype, [&](auto zero) {
        using T = decltype(zero);
        const Shape& x = in[0].spec.shape;
        global_average_pool_cuda<T>(ctx, x[0], x[1] * x[2], x[3], in[0].as<T>(), out[0].as<T>());
      });
  }

  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    const Shape& x = args.input_specs[0].shape;
    return {apply1(std::make_shared<GlobalAveragePoolGrad>(PoolOpParams{{}, {x[1], x[2]}}),
                   {args.grad_outputs[0]})};
  }

  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

}  // namespace

Tensor max_pool2d(const Tensor& x, const Pool2dParams& params) {
  const bool positions = should_record(std::span(&x, 1));  // only the gradient reads them
  return apply1(std::make_shared<MaxPool2d>(PoolOpParams{params, 0, positions}), {x});
}

Tensor average_pool2d(const Tensor& x, const Pool2dParams& params) {
  return apply1(std::make_shared<AveragePool2d>(PoolOpParams{params}), {x});
}

Tensor global_average_pool(const Tensor& x) {
  return apply1(std::make_shared<GlobalAveragePool>(), {x});
}

}  // namespace tessera
