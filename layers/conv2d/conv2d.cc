#include "tessera/layers/conv2d/conv2d.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/prepare.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/fused_kernel.h"
#include "tessera/layers/conv2d/cpu/row_chain.h"
#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/runtime/cuda/cuda.h"

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
    check.fail(fmt::format("stride must be at least 1, but is {}", p.stride.text()));
  if (p.dilation.h < 1 || p.dilation.w < 1)
    check.fail(fmt::format("dilation must be at least 1, but is {}", p.dilation.text()));
  if (p.padding.h < 0 || p.padding.w < 0)
    check.fail(fmt::format("padding must not be negative, but is {}", p.padding.text()));
  if (p.groups < 1) check.fail(fmt::format("groups must be at least 1, but is {}", p.groups));
}

// Checks that images x and the filters go together; returns the shape of y.
Shape check_shapes(const InputCheck& check, const Conv2dParams& p, const Shape& x,
                   const Shape& filters) {
  if (x[3] % p.groups != 0 || filters[0] % p.groups != 0)
    check.fail(fmt::format("groups = {} must divide the {} channels of x and the {} filters",
                           p.groups, x[3], filters[0]));
  if (x[3] / p.groups != filters[3]) {
    std::string of_group = p.groups == 1 ? "" : fmt::format(" in each of {} groups", p.groups);
    check.fail(fmt::format("x has {} channels{}, but w expects {}", x[3] / p.groups, of_group,
                           filters[3]));
  }
  if (filters[1] < 1 || filters[2] < 1) check.fail("the filters must have at least one tap");
  const ConvShape s = conv_shape(p, x, filters);
  const Size2 window{s.dilation_h * (s.kh - 1) + 1, s.dilation_w * (s.kw - 1) + 1};
  const Size2 padded{s.h + 2 * s.pad_h, s.w + 2 * s.pad_w};
  if (window.h > padded.h || window.w > padded.w)
    check.fail(
        fmt::format("the filter covers {} pixels, but x has {} with its padding; pad more, or use "
                    "a smaller filter",
                    window.text(), padded.text()));
  return {s.n, s.out_h(), s.out_w(), s.o};
}

struct PackParams {
  const ConvAlgorithm* algorithm;
  ConvRequest request;
  bool operator==(const PackParams&) const = default;
};

// Packs filters [o, kh, kw, c / groups] into the layout that an algorithm reads.
class PackFilters final : public OpBase<PackFilters, PackParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "pack_filters"; }
  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::cpu; }

  Specs infer(SpecView) const override {
    const auto convolution = params.algorithm->make(params.request, {.packed = true});
    return {{params.request.dtype, {convolution->packed_elements()}, {}}};
  }
  bool takes_half(DeviceKind, SpecView) const override { return is_half(params.request.dtype); }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const auto any = shared_convolution(*params.algorithm, params.request, {.packed = true});
    visit_any_float(params.request.dtype, [&]<class T>(T) {
      static_cast<const Convolution<T>&>(*any).pack(ctx.pool(), in[0].as<T>(), out[0].as<T>());
    });
  }
};

// Filters in the layout that an algorithm reads.
struct PackedFilters {
  Shape filters;  // before packing
  const ConvAlgorithm* algorithm;
  bool operator==(const PackedFilters&) const = default;
};

// The tensors of a convolution. Each of its three ops reads two and computes the third.
enum Operand { kX, kW, kY };
constexpr const char* kOperandNames[] = {"x", "w", "dy"};

struct ConvOperands {
  std::string_view op;
  Operand first, second, result;
};
constexpr ConvOperands kConvOps[] = {  // in the order of ConvPass
    {"conv2d", kX, kW, kY},
    {"conv2d_input_grad", kY, kW, kX},
    {"conv2d_weight_grad", kX, kY, kW}};

// The attributes of the ops. `size` does not follow from the inputs: the image of the input
// gradient, the filter of the weight gradient.
struct ConvOpParams {
  ConvPass pass = ConvPass::forward;
  Conv2dParams conv;
  Size2 size = 0;
  ConvFusion fusion = {};
  std::optional<PackedFilters> packed = {};  // the second input; forward only
  bool operator==(const ConvOpParams&) const = default;
};

std::optional<FusedOp> chained(const Op& op, int input, SpecView in, const OpPtr& producer,
                               SpecView producer_in, const Target& target);

// The convolution and its gradients.
class ConvOp final : public OpBase<ConvOp, ConvOpParams>, public HasEpilogue {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return operands().op; }
  std::vector<OpAttribute> attributes() const override {
    const auto pair = [](Size2 s) {
      return std::vector<double>{static_cast<double>(s.h), static_cast<double>(s.w)};
    };
    return {{"stride", pair(params.conv.stride)},
            {"padding", pair(params.conv.padding)},
            {"dilation", pair(params.conv.dilation)},
            {"groups", {static_cast<double>(params.conv.groups)}}};
  }

  Specs infer(SpecView in) const override {
    const ConvOperands& of = operands();
    InputCheck check(name(), in.first(std::min<size_t>(in.size(), 2)),
                     {kOperandNames[of.first], kOperandNames[of.second]});
    check.floats();
    check.rank(0, 4);
    check.rank(1, params.packed ? 1 : 4);
    check_settings(check, params.conv);
    const Shape x = x_shape(in), w = w_shape(in), y = check_shapes(check, params.conv, x, w);
    if (of.result != kY) check.shape(of.first == kY ? 0 : 1, y, "the output shape of conv2d");
    const DType type = result_type(params.fusion.epilogue, compute_type(in[0].dtype));
    Specs out = {{type, of.result == kX ? x : of.result == kW ? w : y, {}}};
    for (TensorSpec& spec : params.fusion.outputs(in, out[0])) out.push_back(std::move(spec));
    return out;
  }

  bool takes_half(DeviceKind kind, SpecView in) const override {
    return kind == DeviceKind::cpu ||
           (in[0].dtype == in[1].dtype && infer(in)[0].dtype == request(in).result());
  }

  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    if (!target.device.is_cpu()) {
      if constexpr (kCuda)
        if (target.properties != nullptr)
          return dnn_algorithms(request(in), *target.properties, target.gpu);
      return {{}};  // GPU with unknown properties: planned without scratch
    }
    std::vector<Algorithm> all;
    for (const ConvAlgorithm* algorithm : applying(in, target)) {
      const ConvRequest asked = algorithm->as_taken(request(in));
      const ConvVariant form = form_for(*algorithm, asked, in);
      all.push_back({algorithm->name, fused_scratch(params.fusion, asked.dtype, form, in) +
                                          algorithm->make(asked, form)->scratch(target.threads)});
    }
    return all;
  }

  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override {
    if constexpr (kCuda)
      if (!ctx.device().is_cpu()) return dnn_kernel(request(in), chosen, as_cuda(ctx));
    const ConvAlgorithm& algorithm = conv_algorithm(chosen.name);
    const ConvRequest asked = algorithm.as_taken(request(in));
    const ConvVariant form = form_for(algorithm, asked, in);
    return fused_kernel(shared_convolution(algorithm, asked, form), asked.dtype, form,
                        params.fusion, in, infer(in)[0]);
  }

  // 16 bits are multiplied as such if both inputs have the same, or the filters are rounded to
  // them.
  ConvRequest request(SpecView in) const {
    const ScalarProgram& made = params.fusion.prologue;
    const DType first =
        made.code.empty() ? in[0].dtype : result_type(made, compute_type(in[0].dtype));
    return {params.pass, conv_shape(params.conv, x_shape(in), w_shape(in)),
            first == in[1].dtype || first == params.fusion.filters ? first : compute_type(first)};
  }

  const ScalarProgram& epilogue() const override { return params.fusion.epilogue; }
  bool differentiable() const override { return params.fusion.empty(); }
  Saved saved() const override { return {.inputs = 0b11}; }

  // Computes the gradient of an operand from the other operand and the gradient of the result.
  Tensors grad(const GradArgs& args) const override {
    const ConvOperands& of = operands();
    Tensor t[3];
    t[of.first] = args.inputs[0], t[of.second] = args.inputs[1];
    t[of.result] = args.grad_outputs[0];
    const auto gradient = [&](Operand operand) {
      const Shape x = x_shape(args.input_specs), w = w_shape(args.input_specs);
      if (operand == kX) return conv2d_input_grad(t[kY], t[kW], {x[1], x[2]}, params.conv);
      if (operand == kW) return conv2d_weight_grad(t[kX], t[kY], {w[1], w[2]}, params.conv);
      return conv2d(t[kX], t[kW], params.conv);
    };
    Tensors grads(2);
    if (args.needs(0)) grads[0] = gradient(of.first);
    if (args.needs(1)) grads[1] = gradient(of.second);
    return grads;
  }

  std::optional<FusedOp> fuse_epilogue(const ScalarProgram& p, int fused_input, SpecView in,
                                       SpecView p_in) const override {
    if (params.pass == ConvPass::weight_grad || !in[0].device.is_cpu()) return std::nullopt;
    return fused(with_epilogue(params.fusion, p, fused_input, in, infer(in)[0], p_in));
  }

  // Fuses into input 0 only if the algorithm absorbs prologues.
  std::optional<FusedOp> fuse_prologue(const ScalarProgram& p, int input, SpecView in,
                                       SpecView p_in, const Target& target) const override {
    if (!in[0].device.is_cpu()) return std::nullopt;
    if (input == 1 && params.pass != ConvPass::weight_grad && !params.packed)
      return fused(with_rounded_filters(params.fusion, p, in, p_in));
    if (input == 0 && !applying(in, target)[0]->absorbs_prologue(request(in))) return std::nullopt;
    return fused(with_prologue(params.fusion, p, input, in, infer(in)[0], p_in));
  }

  std::optional<FusedOp> fuse_consumer(const OpPtr& consumer, int fused_input, SpecView in,
                                       SpecView consumer_in) const override {
    if (params.pass == ConvPass::weight_grad || !in[0].device.is_cpu()) return std::nullopt;
    return fused(
        with_consumer(params.fusion, consumer, fused_input, in, infer(in)[0], consumer_in));
  }

  std::optional<FusedOp> fuse_chain(const OpPtr& producer, int input, SpecView in,
                                    SpecView producer_in, const Target& target) const override {
    return chained(*this, input, in, producer, producer_in, target);
  }

  // Returns this as a stage of a chain, or nullopt if it cannot be one.
  std::optional<ChainStage> stage(SpecView in) const {
    const ConvRequest asked = request(in);
    if (!params.packed || !in[0].device.is_cpu() || in[0].dtype != asked.dtype ||
        in[1].dtype != asked.dtype || !params.fusion.prologue.code.empty() ||
        !params.fusion.consumers.empty())
      return std::nullopt;
    const TensorSpec result = infer(in)[0];
    const ConvAlgorithm& algorithm = *params.packed->algorithm;
    if (!algorithm.computes_rows(asked) || result.dtype != asked.dtype) return std::nullopt;
    return ChainStage{shared_convolution(algorithm, asked, {.packed = true}), asked.shape,
                      epilogue_plan(epilogue(), in.subspan(2), computed(result), result.dtype),
                      bias_activation(epilogue(), in.subspan(2), computed(result), result.dtype),
                      static_cast<int>(in.size())};
  }

  // Counts a direct convolution, whatever the algorithm: in all three passes kh kw c / groups
  // products for each pixel of y and filter, including those with the padding.
  Cost cost(SpecView in) const override {
    const ConvShape s = request(in).shape;
    const int64_t products = s.n * s.out_h() * s.out_w() * s.o * s.kh * s.kw * (s.c / s.groups);
    return cost_with(in, 2 * products + params.fusion.flops(in, infer(in)[0]));
  }

  int scales_by_channel(SpecView) const override {
    const bool alone = params.fusion.empty() && params.fusion.epilogue.code.empty();
    return params.pass == ConvPass::forward && alone && !params.packed ? 1 : -1;
  }
  std::optional<PackedInput> pack_input(SpecView in, const Target& target) const override {
    if (params.pass != ConvPass::forward || params.packed || !in[0].device.is_cpu() ||
        is_half(params.fusion.filters))
      return std::nullopt;
    const ConvAlgorithm& algorithm = *applying(in, target)[0];
    ConvRequest asked = algorithm.as_taken(request(in));
    if (!algorithm.packs_filters(asked)) asked.dtype = compute_type(asked.dtype);
    if (!algorithm.packs_filters(asked)) return std::nullopt;
    ConvOpParams packed = params;
    packed.packed = {in[1].shape, &algorithm};
    return PackedInput{1, std::make_shared<PackFilters>(PackParams{&algorithm, asked}),
                       std::make_shared<ConvOp>(std::move(packed))};
  }

 private:
  const ConvOperands& operands() const { return kConvOps[static_cast<int>(params.pass)]; }
  Shape x_shape(SpecView in) const {
    if (params.pass != ConvPass::input_grad) return in[0].shape;
    return {in[0].shape[0], params.size.h, params.size.w, in[1].shape[3] * params.conv.groups};
  }
  Shape w_shape(SpecView in) const {
    if (params.packed) return params.packed->filters;
    if (params.pass != ConvPass::weight_grad) return in[1].shape;
    return {in[1].shape[3], params.size.h, params.size.w, in[0].shape[3] / params.conv.groups};
  }

  // Returns the CPU algorithms that apply; the first is the one that choose_algorithm() takes.
  std::vector<const ConvAlgorithm*> applying(SpecView in, const Target& target) const {
    if (params.packed) return {params.packed->algorithm};
    return conv_algorithms(request(in), target.cpu);
  }
  ConvVariant form_for(const ConvAlgorithm& algorithm, const ConvRequest& asked,
                       SpecView in) const {
    const bool prologue = computes_input(params.fusion, asked.dtype, in);
    return {prologue && algorithm.takes_prologue(asked), params.packed.has_value(),
            is_half(infer(in)[0].dtype),
            algorithm.rounds_filters && is_half(asked.dtype) && is_half(params.fusion.filters)};
  }

  std::optional<FusedOp> fused(std::optional<ExtendedFusion> extended) const {
    if (!extended) return std::nullopt;
    ConvOpParams whole = params;
    whole.fusion = std::move(extended->fusion);
    return FusedOp{std::make_shared<ConvOp>(std::move(whole)), std::move(extended->inputs)};
  }
};

struct ChainedConv {
  OpPtr op;
  int inputs;
  bool operator==(const ChainedConv& other) const { return op->is_equivalent(*other.op); }
};

// Convolutions that read the one before them as a RowChain does (cpu/row_chain.h).
class ConvChain final : public OpBase<ConvChain, std::vector<ChainedConv>> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "conv2d_chain"; }
  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::cpu; }
  bool takes_half(DeviceKind, SpecView) const override { return true; }

  Specs infer(SpecView in) const override {
    return for_stages(in, [](const ConvOp&, SpecView) {});
  }
  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    return {{"rows", row_chain_scratch(in[0].dtype, stages(in), target.threads)}};
  }
  std::unique_ptr<Kernel> prepare(SpecView in, Context&, const Algorithm&) const override {
    return row_chain_kernel(in[0].dtype, stages(in));
  }
  Cost cost(SpecView in) const override {
    int64_t flops = 0;
    for_stages(in, [&](const ConvOp& op, SpecView own) { flops += op.cost(own).flops; });
    return cost_with(in, flops);
  }

  std::vector<ChainStage> stages(SpecView in) const {
    std::vector<ChainStage> all;
    for_stages(in, [&](const ConvOp& op, SpecView own) { all.push_back(*op.stage(own)); });
    return all;
  }

 private:
  // Calls fn(convolution, specs of its inputs); returns the specs of the last one's outputs.
  template <class F>
  Specs for_stages(SpecView in, F fn) const {
    Specs result = {in[0]};
    in = in.subspan(1);
    for (const ChainedConv& stage : params) {
      const auto& op = static_cast<const ConvOp&>(*stage.op);
      Specs own = {result[0]};
      const auto rest = in.first(static_cast<size_t>(stage.inputs) - 1);
      own.insert(own.end(), rest.begin(), rest.end());
      fn(op, own);
      result = op.infer(own);
      result[0].device = own[0].device;
      in = in.subspan(rest.size());
    }
    return result;
  }
};

std::optional<FusedOp> chained(const Op& op, int input, SpecView in, const OpPtr& producer,
                               SpecView producer_in, const Target& target) {
  const auto& consumer = static_cast<const ConvOp&>(op);
  const auto own = consumer.stage(in);
  if (!own || input != 0) return std::nullopt;
  std::vector<ChainedConv> all;
  std::vector<ChainStage> stages;
  if (const auto* chain = dynamic_cast<const ConvChain*>(producer.get())) {
    all = chain->params, stages = chain->stages(producer_in);
  } else if (const auto* first = dynamic_cast<const ConvOp*>(producer.get())) {
    const auto stage = first->stage(producer_in);
    if (!stage) return std::nullopt;
    all = {{producer, stage->inputs}}, stages = {*stage};
  }
  const ConvShape& s = own->shape;
  if (stages.empty() || stages.back().shape.depthwise() == s.depthwise() ||
      (s.depthwise() && stages.size() > 1) || s.n * s.out_h() < kChainRows * target.threads ||
      in[0].bytes() < kChainBytes)
    return std::nullopt;
  all.push_back({std::make_shared<ConvOp>(consumer.params), own->inputs});
  FusedOp fused{std::make_shared<ConvChain>(std::move(all)), {}};
  for (size_t k = 0; k < producer_in.size(); ++k) fused.inputs.push_back(-1 - static_cast<int>(k));
  for (size_t k = 1; k < in.size(); ++k) fused.inputs.push_back(static_cast<int>(k));
  return fused;
}

}  // namespace

std::optional<ConvRequest> conv_request(const Op& op, SpecView in) {
  const auto* convolution = dynamic_cast<const ConvOp*>(&op);
  if (convolution == nullptr) return std::nullopt;
  return convolution->request(in);
}

std::string conv_text(const ConvRequest& request) {
  constexpr const char* kPasses[] = {"forward", "input_grad", "weight_grad"};
  const ConvShape& s = request.shape;
  return fmt::format(
      "{} x {}x{}x{}x{} w {}x{}x{}x{} stride {}x{} padding {}x{} dilation {}x{} groups {}",
      kPasses[static_cast<int>(request.pass)], s.n, s.h, s.w, s.c, s.o, s.kh, s.kw, s.c / s.groups,
      s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups);
}

namespace {

Tensor apply_conv(ConvOpParams params, DType result, const Tensor& a, const Tensor& b) {
  params.fusion.epilogue = plain_epilogue(result);
  return apply1(std::make_shared<ConvOp>(std::move(params)), {a, b});
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& filters, const Conv2dParams& params) {
  const Tensor w = is_half(x.dtype()) ? cast(filters, x.dtype()) : filters;
  return apply_conv({ConvPass::forward, params}, x.dtype(), x, w);
}

Tensor conv2d_input_grad(const Tensor& dy, const Tensor& filters, Size2 image,
                         const Conv2dParams& params) {
  return apply_conv({ConvPass::input_grad, params, image}, dy.dtype(), dy, filters);
}

Tensor conv2d_weight_grad(const Tensor& x, const Tensor& dy, Size2 kernel,
                          const Conv2dParams& params) {
  return apply_conv({ConvPass::weight_grad, params, kernel}, compute_type(x.dtype()), x, dy);
}

}  // namespace tessera
