#include "tessera/layers/conv2d.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/op_settings.h"
#include "tessera/layers/conv2d_cpu/fused_kernel.h"
#include "tessera/layers/conv2d_cpu/winograd.h"
#include "tessera/layers/conv2d_cuda/kernels.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/simd/isa.h"

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

// Algorithms of 3x3 filters, by the tiles of outputs that are computed together.
constexpr std::string_view kWinograd4 = "winograd4", kWinograd2 = "winograd2";

bool is_winograd(std::string_view algorithm) {
  return algorithm == kWinograd4 || algorithm == kWinograd2;
}
int tile_of(std::string_view winograd) { return winograd == kWinograd4 ? 4 : 2; }

// Filters in the form in which an algorithm computes with them.
struct PackedFilters {
  Shape filters;  // as they were
  std::string_view algorithm;
  bool operator==(const PackedFilters&) const = default;
};

// The settings of the ops. `size` is what the inputs do not tell: the image of the input gradient,
// the filter of the weight gradient.
struct ConvOpParams {
  Conv2dParams conv;
  Size2 size = 0;
  ConvFusion fusion = {};
  std::optional<PackedFilters> packed = {};  // what the second input is, of Conv2d alone
  bool operator==(const ConvOpParams&) const = default;
};

// What the convolution and its gradients share. Derived has a name, the names of its inputs,
// shape(in), which trusts that the inputs have four axes, output(check, in) and grad().
template <class Derived, ConvPass kPass>
class ConvOp : public OpBase<Derived>, public HasEpilogue, public HasSettings {
 public:
  explicit ConvOp(ConvOpParams params) : params(std::move(params)) {}
  std::string_view name() const override { return Derived::kName; }
  std::vector<OpSetting> settings() const override {
    const auto pair = [](Size2 s) {
      return std::vector<double>{static_cast<double>(s.h), static_cast<double>(s.w)};
    };
    return {{"stride", pair(params.conv.stride)},
            {"padding", pair(params.conv.padding)},
            {"dilation", pair(params.conv.dilation)},
            {"groups", {static_cast<double>(params.conv.groups)}}};
  }

  Specs infer(std::span<const TensorSpec> in) const override {
    InputCheck check(name(), in.first(std::min<size_t>(in.size(), 2)), Derived::kInputs);
    check.floats();
    check.rank(0, 4);
    check.rank(1, params.packed ? 1 : 4);
    check_settings(check, params.conv);
    Specs out = {{in[0].dtype, self().output(check, in), {}}};
    for (TensorSpec& spec : params.fusion.outputs(in, out[0])) out.push_back(std::move(spec));
    return out;
  }

  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::cpu || kCuda; }

  std::vector<Algorithm> algorithms(std::span<const TensorSpec> in,
                                    const Target& target) const override {
    if (!target.device.is_cpu()) {
      if constexpr (kCuda)
        if (target.facts != nullptr) return dnn_algorithms(request(in), *target.facts, target.gpu);
      return {{}};  // of a GPU that nobody knows: planned without scratch
    }
    if (params.packed) return {packed_algorithm(in, target.threads)};
    const ConvShape shape = self().shape(in);
    const size_t element = size_of(in[0].dtype);
    const size_t fused = fused_scratch(params.fusion, false, in[0]);
    std::vector<Algorithm> all;
    if constexpr (kNativeKernels)
      if (has_native_kernels()) {
        const bool winograd = in[0].dtype == DType::f32 && target.cpu.winograd != Winograd::off;
        if (const int m = winograd ? winograd_tile(kPass, shape) : 0)
          all.push_back({m == 4 ? kWinograd4 : kWinograd2, winograd_bytes(in, m, target.threads)});
        const bool takes = has_prologue() && native_takes_prologue(kPass, shape, element);
        all.push_back({"native", fused_scratch(params.fusion, takes, in[0]) +
                                     native_conv_scratch(kPass, shape, element, target.threads,
                                                         {.prologue = takes})});
      }
    all.push_back({"eigen", fused + eigen_conv_scratch(kPass, shape, element, target.threads)});
    return all;
  }

  std::unique_ptr<Kernel> prepare(std::span<const TensorSpec> in, Context& where,
                                  const Algorithm& chosen) const override {
    if constexpr (kCuda)
      if (!where.device().is_cpu()) return dnn_kernel(request(in), chosen, as_cuda(where));
    const ConvShape shape = self().shape(in);
    std::unique_ptr<Kernel> kernel;
    visit_float(in[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      std::shared_ptr<const Convolution<T>> convolution;
      bool takes_prologue = false;
      if constexpr (kNativeKernels) {
        if (chosen.name == "native") {
          takes_prologue = has_prologue() && native_takes_prologue(kPass, shape, sizeof(T));
          convolution = native_convolution<T>(kPass, shape, {takes_prologue, packed()});
        }
        if constexpr (sizeof(T) == sizeof(float))
          if (is_winograd(chosen.name)) {
            convolution = make_winograd(kPass, shape, tile_of(chosen.name), packed());
            takes_prologue = winograd_takes_prologue(kPass, shape);
          }
      }
      if (!convolution) convolution = eigen_convolution<T>(kPass, shape);
      kernel =
          fused_kernel<T>(std::move(convolution), takes_prologue, params.fusion, in, infer(in)[0]);
    });
    return kernel;
  }

  ConvRequest request(std::span<const TensorSpec> in) const {
    return {kPass, self().shape(in), size_of(in[0].dtype)};
  }

  const ScalarProgram& epilogue() const override { return params.fusion.epilogue; }
  bool differentiable() const override { return params.fusion.nothing(); }
  Saved saved() const override { return {.inputs = 0b11}; }

  std::optional<Absorbed> absorb_epilogue(const ScalarProgram& p, int fused_input,
                                          std::span<const TensorSpec> in,
                                          std::span<const TensorSpec> p_in) const override {
    if (kPass == ConvPass::weight_grad || !in[0].device.is_cpu()) return std::nullopt;
    return absorbed(with_epilogue(params.fusion, p, fused_input, in, infer(in)[0], p_in));
  }

  // Into the first input where that is read in parts anyway.
  std::optional<Absorbed> absorb_prologue(const ScalarProgram& p, int input,
                                          std::span<const TensorSpec> in,
                                          std::span<const TensorSpec> p_in,
                                          const Target& target) const override {
    if (!in[0].device.is_cpu()) return std::nullopt;
    if (input == 0 && !reads_in_parts(in, target)) return std::nullopt;
    return absorbed(with_prologue(params.fusion, p, input, in, infer(in)[0], p_in));
  }

  std::optional<Absorbed> absorb_reader(const OpPtr& reader, int fused_input,
                                        std::span<const TensorSpec> in,
                                        std::span<const TensorSpec> reader_in) const override {
    if (kPass == ConvPass::weight_grad || !in[0].device.is_cpu()) return std::nullopt;
    return absorbed(with_reader(params.fusion, reader, fused_input, in, infer(in)[0], reader_in));
  }

  // As direct convolution, whatever the algorithm: in all three passes a pixel of y and a filter
  // have kh kw c / groups products, those with the padding included.
  Cost cost(std::span<const TensorSpec> in) const override {
    const ConvShape s = self().shape(in);
    const int64_t products = s.n * s.out_h() * s.out_w() * s.o * s.kh * s.kw * (s.c / s.groups);
    return this->cost_with(in, 2 * products + params.fusion.flops(in, infer(in)[0]));
  }

  const ConvOpParams params;

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }

  bool has_prologue() const { return !params.fusion.prologue.code.empty(); }

  // Whether the first input may be computed on the way. Direct weight gradients are given it as a
  // whole, in scratch, while they run: what is written there was not written when the convolution
  // read it.
  bool reads_in_parts(std::span<const TensorSpec> in, const Target& target) const {
    if (kPass == ConvPass::input_grad) return false;
    const Algorithm chosen = choose_algorithm(*this, in, target);
    if (is_winograd(chosen.name)) return true;
    if constexpr (kNativeKernels)
      if (chosen.name == "native")
        return native_takes_prologue(ConvPass::forward, self().shape(in), size_of(in[0].dtype));
    return false;
  }

  size_t winograd_bytes(std::span<const TensorSpec> in, int m, int threads) const {
    const ConvShape shape = self().shape(in);
    if constexpr (kNativeKernels) {
      const bool takes = winograd_takes_prologue(kPass, shape);
      const bool prologue = takes && !params.fusion.prologue.code.empty();
      return fused_scratch(params.fusion, takes, in[0]) +
             winograd_scratch(kPass, shape, m, threads, {prologue, packed()});
    }
    return 0;
  }

  bool packed() const { return params.packed.has_value(); }
  Algorithm packed_algorithm(std::span<const TensorSpec> in, int threads) const {
    const std::string_view name = params.packed->algorithm;
    if (is_winograd(name)) return {name, winograd_bytes(in, tile_of(name), threads)};
    size_t scratch = 0;
    if constexpr (kNativeKernels)
      scratch = native_conv_scratch(kPass, self().shape(in), size_of(in[0].dtype), threads,
                                    {has_prologue(), true});
    return {name, fused_scratch(params.fusion, has_prologue(), in[0]) + scratch};
  }

  std::optional<Absorbed> absorbed(std::optional<FusedMore> more) const {
    if (!more) return std::nullopt;
    return Absorbed{std::make_shared<Derived>(ConvOpParams{params.conv, params.size,
                                                           std::move(more->fusion), params.packed}),
                    std::move(more->inputs)};
  }
};

class Conv2d final : public ConvOp<Conv2d, ConvPass::forward> {
 public:
  using ConvOp::ConvOp;
  static constexpr const char* kName = "conv2d";
  static constexpr std::initializer_list<const char*> kInputs = {"x", "w"};

  ConvShape shape(std::span<const TensorSpec> in) const {
    return conv_shape(params.conv, in[0].shape, filters(in));
  }
  Shape output(const InputCheck& check, std::span<const TensorSpec> in) const {
    return check_shapes(check, params.conv, in[0].shape, filters(in));
  }

  int scales_by_channel(std::span<const TensorSpec>) const override {
    return params.fusion.nothing() && !params.packed ? 1 : -1;
  }
  std::optional<PackedInput> pack_input(std::span<const TensorSpec> in,
                                        const Target& target) const override;

  Tensors grad(const GradArgs& args) const override {
    const Tensor& dy = args.grad_outputs[0];
    const Shape &x = args.input_specs[0].shape, &w = args.input_specs[1].shape;
    Tensors grads(2);
    if (args.needs(0)) grads[0] = conv2d_input_grad(dy, args.inputs[1], {x[1], x[2]}, params.conv);
    if (args.needs(1)) grads[1] = conv2d_weight_grad(args.inputs[0], dy, {w[1], w[2]}, params.conv);
    return grads;
  }

 private:
  const Shape& filters(std::span<const TensorSpec> in) const {
    return params.packed ? params.packed->filters : in[1].shape;
  }
};

struct PackParams {
  ConvShape shape;
  DType dtype;
  std::string_view algorithm;
  bool operator==(const PackParams&) const = default;
};

// filters [o, kh, kw, c / groups] -> what an algorithm makes of them before it computes
class PackFilters final : public OpBase<PackFilters> {
 public:
  explicit PackFilters(PackParams params) : params(params) {}
  std::string_view name() const override { return "pack_filters"; }

  Specs infer(std::span<const TensorSpec>) const override {
    Specs out;
    visit([&](const auto& convolution) {
      out = {{params.dtype, {convolution.packed_elements()}, {}}};
    });
    return out;
  }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer) const override {
    visit([&]<class T>(const Convolution<T>& convolution) {
      convolution.pack(where.pool(), in[0].as<T>(), out[0].as<T>());
    });
  }

  const PackParams params;

 private:
  template <class F>
  void visit(F use) const {
    if constexpr (kNativeKernels) {
      if (is_winograd(params.algorithm))
        return use(
            *make_winograd(ConvPass::forward, params.shape, tile_of(params.algorithm), true));
      visit_float(params.dtype, [&](auto zero) {
        use(*native_convolution<decltype(zero)>(ConvPass::forward, params.shape, {.packed = true}));
      });
    }
  }
};

std::optional<PackedInput> Conv2d::pack_input(std::span<const TensorSpec> in,
                                              const Target& target) const {
  if constexpr (kNativeKernels) {
    if (params.packed || !in[0].device.is_cpu()) return std::nullopt;
    const std::string_view name = choose_algorithm(*this, in, target).name;
    const ConvShape s = shape(in);
    const bool packs =
        is_winograd(name)
            ? winograd_packs_filters(s, tile_of(name))
            : name == "native" && native_packs_filters(ConvPass::forward, s, size_of(in[0].dtype));
    if (!packs) return std::nullopt;
    ConvOpParams packed = params;
    packed.packed = {in[1].shape, name};
    return PackedInput{1, std::make_shared<PackFilters>(PackParams{s, in[0].dtype, name}),
                       std::make_shared<Conv2d>(std::move(packed))};
  }
  return std::nullopt;
}

class Conv2dInputGrad final : public ConvOp<Conv2dInputGrad, ConvPass::input_grad> {
 public:
  using ConvOp::ConvOp;
  static constexpr const char* kName = "conv2d_input_grad";
  static constexpr std::initializer_list<const char*> kInputs = {"dy", "w"};

  ConvShape shape(std::span<const TensorSpec> in) const {
    return conv_shape(params.conv, image(in), in[1].shape);
  }
  Shape output(const InputCheck& check, std::span<const TensorSpec> in) const {
    check.shape(0, check_shapes(check, params.conv, image(in), in[1].shape), "what conv2d gives");
    return image(in);
  }

  Tensors grad(const GradArgs& args) const override {
    const Tensor& g = args.grad_outputs[0];
    const Shape& w = args.input_specs[1].shape;
    Tensors grads(2);
    if (args.needs(0)) grads[0] = conv2d(g, args.inputs[1], params.conv);
    if (args.needs(1)) grads[1] = conv2d_weight_grad(g, args.inputs[0], {w[1], w[2]}, params.conv);
    return grads;
  }

 private:
  Shape image(std::span<const TensorSpec> in) const {
    return {in[0].shape[0], params.size.h, params.size.w, in[1].shape[3] * params.conv.groups};
  }
};

class Conv2dWeightGrad final : public ConvOp<Conv2dWeightGrad, ConvPass::weight_grad> {
 public:
  using ConvOp::ConvOp;
  static constexpr const char* kName = "conv2d_weight_grad";
  static constexpr std::initializer_list<const char*> kInputs = {"x", "dy"};

  ConvShape shape(std::span<const TensorSpec> in) const {
    return conv_shape(params.conv, in[0].shape, filters(in));
  }
  Shape output(const InputCheck& check, std::span<const TensorSpec> in) const {
    check.shape(1, check_shapes(check, params.conv, in[0].shape, filters(in)), "what conv2d gives");
    return filters(in);
  }

  Tensors grad(const GradArgs& args) const override {
    const Tensor& g = args.grad_outputs[0];
    const Shape& x = args.input_specs[0].shape;
    Tensors grads(2);
    if (args.needs(0)) grads[0] = conv2d_input_grad(args.inputs[1], g, {x[1], x[2]}, params.conv);
    if (args.needs(1)) grads[1] = conv2d(args.inputs[0], g, params.conv);
    return grads;
  }

 private:
  Shape filters(std::span<const TensorSpec> in) const {
    return {in[1].shape[3], params.size.h, params.size.w,
            in[0].shape[3] / std::max<int64_t>(params.conv.groups, 1)};
  }
};

}  // namespace

std::optional<ConvRequest> conv_request(const Op& op, std::span<const TensorSpec> in) {
  if (auto* forward = dynamic_cast<const Conv2d*>(&op)) return forward->request(in);
  if (auto* gradient = dynamic_cast<const Conv2dInputGrad*>(&op)) return gradient->request(in);
  if (auto* gradient = dynamic_cast<const Conv2dWeightGrad*>(&op)) return gradient->request(in);
  return std::nullopt;
}

std::string conv_text(const ConvRequest& request) {
  constexpr const char* kPasses[] = {"forward", "input_grad", "weight_grad"};
  const ConvShape& s = request.shape;
  return fmt::format(
      "{} x {}x{}x{}x{} w {}x{}x{}x{} stride {}x{} padding {}x{} dilation {}x{} groups {}",
      kPasses[static_cast<int>(request.pass)], s.n, s.h, s.w, s.c, s.o, s.kh, s.kw, s.c / s.groups,
      s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups);
}

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
