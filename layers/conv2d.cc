#include "tessera/layers/conv2d.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/layers/shared/checks.h"
#include "tessera/layers/conv2d_cpu.h"
#include "tessera/layers/shared/epilogue.h"

namespace tessera {
namespace {

ConvShape conv_shape(const Conv2dParams& p, const Shape& x, const Shape& filters) {
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .o = filters[0],
          .kh = filters[1],
          .kw = filters[2],
          .stride_h = p.stride.h,
          .stride_w = p.stride.w,
          .pad_h = p.padding.h,
          .pad_w = p.padding.w,
          .dilation_h = p.dilation.h,
          .dilation_w = p.dilation.w,
          .groups = p.groups};
}

void check_settings(const InputCheck& check, const Conv2dParams& p) {
  if (p.stride.h < 1 || p.stride.w < 1)
    check.fail(fmt::format("stride must be at least 1, is {}", p.stride.text()));
  if (p.dilation.h < 1 || p.dilation.w < 1)
    check.fail(fmt::format("dilation must be at least 1, is {}", p.dilation.text()));
  if (p.padding.h < 0 || p.padding.w < 0)
    check.fail(fmt::format("padding must not be negative, is {}", p.padding.text()));
  if (p.groups < 1) check.fail(fmt::format("groups must be at least 1, is {}", p.groups));
}

// Checks that images x and the filters go together; returns the shape of y.
Shape check_shapes(const InputCheck& check, const Conv2dParams& p, const Shape& x,
                   const Shape& filters) {
  if (x[3] % p.groups != 0 || filters[0] % p.groups != 0)
    check.fail(fmt::format("groups = {} must divide the {} channels of x and the {} filters",
                           p.groups, x[3], filters[0]));
  if (x[3] / p.groups != filters[3]) {
    std::string of_group = p.groups == 1 ? "" : fmt::format(" in each of {} groups", p.groups);
    check.fail(
        fmt::format("x has {} channels{} but w expects {}", x[3] / p.groups, of_group, filters[3]));
  }
  if (filters[1] < 1 || filters[2] < 1) check.fail("the filters must have at least one tap");
  const ConvShape s = conv_shape(p, x, filters);
  const Size2 window{s.dilation_h * (s.kh - 1) + 1, s.dilation_w * (s.kw - 1) + 1};
  const Size2 room{s.h + 2 * s.pad_h, s.w + 2 * s.pad_w};
  if (window.h > room.h || window.w > room.w)
    check.fail(
        fmt::format("the filter reaches over {} pixels but x has {} with its padding; pad "
                    "more, or use a smaller filter",
                    window.text(), room.text()));
  return {s.n, s.out_h(), s.out_w(), s.o};
}

int threads_of(Context& where) { return static_cast<CpuContext&>(where).pool().size(); }

// The settings of the ops. `size` is what the inputs do not tell: the image of the input gradient,
// the filter of the weight gradient.
struct ConvOpParams {
  Conv2dParams conv;
  Size2 size = 0;
  ScalarProgram epilogue = no_epilogue();
  bool operator==(const ConvOpParams&) const = default;
};

class Conv2d final : public OpBase<Conv2d> {
 public:
  explicit Conv2d(ConvOpParams params) : params(std::move(params)) {}
  std::string_view name() const override { return "conv2d"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    InputCheck check(name(), in.first(std::min<size_t>(in.size(), 2)), {"x", "w"});
    check.floats();
    check.rank(0, 4);
    check.rank(1, 4);
    check_settings(check, params.conv);
    return {{in[0].dtype, check_shapes(check, params.conv, in[0].shape, in[1].shape), {}}};
  }

  std::vector<Choice> choices(std::span<const TensorSpec> in, Context& where) const override {
    return {{0, conv2d_scratch(conv_shape(params.conv, in[0].shape, in[1].shape),
                               size_of(in[0].dtype), threads_of(where))}};
  }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer scratch) const override {
    const ConvShape shape = conv_shape(params.conv, in[0].spec.shape, in[1].spec.shape);
    EpilogueRun more(params.epilogue, in.subspan(2), out[0]);
    visit_float(out[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      const Epilogue<T> hook = more.hook<T>();
      conv2d<T>(where.pool(), shape, in[0].as<T>(), in[1].as<T>(), out[0].as<T>(), scratch.data,
                &hook);
    });
  }

  bool differentiable() const override { return params.epilogue.code.empty(); }
  Saved saved() const override { return {.inputs = 0b11}; }

  Tensors grad(const GradArgs& args) const override {
    const Tensor& dy = args.grad_outputs[0];
    const Shape &x = args.input_specs[0].shape, &w = args.input_specs[1].shape;
    Tensors grads(2);
    if (args.needs(0)) grads[0] = conv2d_input_grad(dy, args.inputs[1], {x[1], x[2]}, params.conv);
    if (args.needs(1)) grads[1] = conv2d_weight_grad(args.inputs[0], dy, {w[1], w[2]}, params.conv);
    return grads;
  }

  std::optional<Absorbed> absorb_epilogue(const ScalarProgram& p, int fused_input,
                                          std::span<const TensorSpec> in,
                                          std::span<const TensorSpec> p_in) const override {
    auto whole = join_epilogue(params.epilogue, p, fused_input, infer(in)[0], p_in);
    if (!whole || !in[0].device.is_cpu()) return std::nullopt;
    return Absorbed{std::make_shared<Conv2d>(ConvOpParams{params.conv, params.size, *whole}),
                    join_inputs(in.size(), p, fused_input)};
  }

  const ConvOpParams params;
};

class Conv2dInputGrad final : public OpBase<Conv2dInputGrad> {
 public:
  explicit Conv2dInputGrad(ConvOpParams params) : params(std::move(params)) {}
  std::string_view name() const override { return "conv2d_input_grad"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    InputCheck check(name(), in.first(std::min<size_t>(in.size(), 2)), {"dy", "w"});
    check.floats();
    check.rank(0, 4);
    check.rank(1, 4);
    check_settings(check, params.conv);
    const Shape x = image(in[0].shape, in[1].shape);
    check.shape(0, check_shapes(check, params.conv, x, in[1].shape), "what conv2d gives");
    return {{in[0].dtype, x, {}}};
  }

  std::vector<Choice> choices(std::span<const TensorSpec> in, Context& where) const override {
    const Shape x = image(in[0].shape, in[1].shape);
    return {{0, conv2d_input_grad_scratch(conv_shape(params.conv, x, in[1].shape),
                                          size_of(in[0].dtype), threads_of(where))}};
  }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer scratch) const override {
    const ConvShape shape = conv_shape(params.conv, out[0].spec.shape, in[1].spec.shape);
    EpilogueRun more(params.epilogue, in.subspan(2), out[0]);
    visit_float(out[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      const Epilogue<T> hook = more.hook<T>();
      conv2d_input_grad<T>(where.pool(), shape, in[0].as<T>(), in[1].as<T>(), out[0].as<T>(),
                           scratch.data, &hook);
    });
  }

  bool differentiable() const override { return params.epilogue.code.empty(); }
  Saved saved() const override { return {.inputs = 0b11}; }

  Tensors grad(const GradArgs& args) const override {
    const Tensor& g = args.grad_outputs[0];
    const Shape& w = args.input_specs[1].shape;
    Tensors grads(2);
    if (args.needs(0)) grads[0] = conv2d(g, args.inputs[1], params.conv);
    if (args.needs(1)) grads[1] = conv2d_weight_grad(g, args.inputs[0], {w[1], w[2]}, params.conv);
    return grads;
  }

  std::optional<Absorbed> absorb_epilogue(const ScalarProgram& p, int fused_input,
                                          std::span<const TensorSpec> in,
                                          std::span<const TensorSpec> p_in) const override {
    auto whole = join_epilogue(params.epilogue, p, fused_input, infer(in)[0], p_in);
    if (!whole || !in[0].device.is_cpu()) return std::nullopt;
    return Absorbed{
        std::make_shared<Conv2dInputGrad>(ConvOpParams{params.conv, params.size, *whole}),
        join_inputs(in.size(), p, fused_input)};
  }

  const ConvOpParams params;

 private:
  Shape image(const Shape& dy, const Shape& filters) const {
    return {dy[0], params.size.h, params.size.w, filters[3] * params.conv.groups};
  }
};

class Conv2dWeightGrad final : public OpBase<Conv2dWeightGrad> {
 public:
  explicit Conv2dWeightGrad(ConvOpParams params) : params(std::move(params)) {}
  std::string_view name() const override { return "conv2d_weight_grad"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    InputCheck check(name(), in, {"x", "dy"});
    check.floats();
    check.rank(0, 4);
    check.rank(1, 4);
    check_settings(check, params.conv);
    const Shape w = filters(in[0].shape, in[1].shape);
    check.shape(1, check_shapes(check, params.conv, in[0].shape, w), "what conv2d gives");
    return {{in[0].dtype, w, {}}};
  }

  std::vector<Choice> choices(std::span<const TensorSpec> in, Context& where) const override {
    const Shape w = filters(in[0].shape, in[1].shape);
    return {{0, conv2d_weight_grad_scratch(conv_shape(params.conv, in[0].shape, w),
                                           size_of(in[0].dtype), threads_of(where))}};
  }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer scratch) const override {
    const ConvShape shape = conv_shape(params.conv, in[0].spec.shape, out[0].spec.shape);
    visit_float(out[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      conv2d_weight_grad<T>(where.pool(), shape, in[0].as<T>(), in[1].as<T>(), out[0].as<T>(),
                            scratch.data);
    });
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b11}; }

  Tensors grad(const GradArgs& args) const override {
    const Tensor& g = args.grad_outputs[0];
    const Shape& x = args.input_specs[0].shape;
    Tensors grads(2);
    if (args.needs(0)) grads[0] = conv2d_input_grad(args.inputs[1], g, {x[1], x[2]}, params.conv);
    if (args.needs(1)) grads[1] = conv2d(args.inputs[0], g, params.conv);
    return grads;
  }

  const ConvOpParams params;

 private:
  Shape filters(const Shape& x, const Shape& dy) const {
    return {dy[3], params.size.h, params.size.w, x[3] / std::max<int64_t>(params.conv.groups, 1)};
  }
};

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& filters, const Conv2dParams& params) {
  return apply1(std::make_shared<Conv2d>(ConvOpParams{params}), {x, filters});
}

Tensor conv2d_input_grad(const Tensor& dy, const Tensor& filters, Size2 image,
                         const Conv2dParams& params) {
  return apply1(std::make_shared<Conv2dInputGrad>(ConvOpParams{params, image}), {dy, filters});
}

Tensor conv2d_weight_grad(const Tensor& x, const Tensor& dy, Size2 kernel,
                          const Conv2dParams& params) {
  return apply1(std::make_shared<Conv2dWeightGrad>(ConvOpParams{params, kernel}), {x, dy});
}

}  // namespace tessera
