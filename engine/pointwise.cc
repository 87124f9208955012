#include "tessera/engine/pointwise.h"

#include <algorithm>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/pointwise_run.h"
#include "tessera/engine/scalar_program.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tensor.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

Tensor apply_one(ScalarOp op, Tensors operands) {
  ScalarBuilder b(static_cast<int>(operands.size()));
  const int last = static_cast<int>(operands.size()) - 1;
  return pointwise(name_of(op), b.build(b.push(op, 0, std::min(1, last), std::min(2, last))),
                   std::move(operands));
}

Tensor above(const Tensor& a, const Tensor& b) { return apply_one(ScalarOp::greater, {a, b}); }
Tensor up_to(const Tensor& a, const Tensor& b) { return apply_one(ScalarOp::less_equal, {a, b}); }
Tensor select(const Tensor& condition, const Tensor& then, const Tensor& otherwise) {
  return apply_one(ScalarOp::select, {condition, then, otherwise});
}

// Derives the gradient of y = program(inputs) with the upstream gradient dy: one tensor, shaped
// like dy, for each input for which `needed` is set. The program is replayed backwards as
// element-wise ops, one per instruction, which are differentiable. If max or min has two equal
// operands, the first receives the gradient. greater has no gradient, as it is constant wherever it
// is smooth.
class Replay {
 public:
  Replay(const ScalarProgram& program, const Tensors& inputs, const std::vector<bool>& needed)
      : program_(program), values_(inputs), needed_(needed) {
    for (Tensor& value : values_) value = cast(value, compute_type(value.dtype()));
    for (const Instruction& in : program.code) {
      Tensors operands;
      bool any = false;
      for (int k = 0; k < operand_count(in.op); ++k) {
        operands.push_back(values_[in.operand(k)]);
        any = any || needed_[in.operand(k)];
      }
      values_.push_back(in.op == ScalarOp::constant ? full({}, in.value, values_[0].dtype())
                                                    : apply_instruction(in.op, operands));
      needed_.push_back(any && in.op != ScalarOp::greater && in.op != ScalarOp::less_equal);
    }
    grads_.resize(values_.size());
  }

  Tensors run(const Tensor& dy) {
    grads_[static_cast<size_t>(program_.result())] = cast(dy, compute_type(dy.dtype()));
    for (size_t i = program_.code.size(); i-- > 0;) {
      const size_t r = static_cast<size_t>(program_.inputs) + i;
      if (needed_[r] && grads_[r].defined()) step(program_.code[i], values_[r], grads_[r]);
    }
    grads_.resize(static_cast<size_t>(program_.inputs));
    for (size_t i = 0; i < grads_.size(); ++i)
      if (needed_[i] && !grads_[i].defined())
        grads_[i] = full(dy.shape(), 0, compute_type(dy.dtype()));
    return std::move(grads_);
  }

 private:
  // Returns the result in float32, rounded to 16 bits if the op does that.
  static Tensor apply_instruction(ScalarOp op, const Tensors& operands) {
    const Tensor y = apply_one(op, operands);
    return cast(y, compute_type(y.dtype()));
  }

  // Adds the result of make(), if the gradient of register r is needed.
  template <class F>
  void add(int r, F&& make) {
    if (!needed_[r]) return;
    const Tensor grad = make();
    grads_[r] = grads_[r].defined() ? grads_[r] + grad : grad;
  }

  void step(const Instruction& in, const Tensor& y, const Tensor& g) {
    const Tensor &a = values_[in.a], &b = values_[in.b];
    const auto zero = [&] { return full({}, 0, g.dtype()); };
    switch (in.op) {
      case ScalarOp::constant:
      case ScalarOp::greater:
      case ScalarOp::less_equal:
        return;
      case ScalarOp::add:
        add(in.a, [&] { return g; });
        return add(in.b, [&] { return g; });
      case ScalarOp::sub:
        add(in.a, [&] { return g; });
        return add(in.b, [&] { return -g; });
      case ScalarOp::mul:
        add(in.a, [&] { return g * b; });
        return add(in.b, [&] { return g * a; });
      case ScalarOp::div:
        add(in.a, [&] { return g / b; });
        return add(in.b, [&] { return -(g * y / b); });
      case ScalarOp::max:
        add(in.a, [&] { return select(above(b, a), zero(), g); });
        return add(in.b, [&] { return select(up_to(b, a), zero(), g); });
      case ScalarOp::min:
        add(in.a, [&] { return select(above(a, b), zero(), g); });
        return add(in.b, [&] { return select(up_to(a, b), zero(), g); });
      case ScalarOp::pow:
        add(in.a, [&] { return g * power_slope(in, a, b); });
        // The gradient at base 0 is 0, not 0 log(0).
        return add(in.b, [&] { return g * select(up_to(a, zero()), zero(), y * log(a)); });
      case ScalarOp::select:
        add(in.b, [&] { return select(a, g, zero()); });
        return add(in.c, [&] { return select(a, zero(), g); });
      case ScalarOp::neg:
        return add(in.a, [&] { return -g; });
      case ScalarOp::abs:
        return add(in.a, [&] { return g * (above(a, zero()) - above(zero(), a)); });
      case ScalarOp::exp:
        return add(in.a, [&] { return g * y; });
      case ScalarOp::log:
        return add(in.a, [&] { return g / a; });
      case ScalarOp::sqrt:
        return add(in.a, [&] { return g * 0.5 / y; });
      case ScalarOp::tanh:
        return add(in.a, [&] { return g * (1.0 - y * y); });
      case ScalarOp::sin:
        return add(in.a, [&] { return g * cos(a); });
      case ScalarOp::cos:
        return add(in.a, [&] { return -(g * sin(a)); });
      case ScalarOp::erf:
        return add(in.a, [&] { return g * exp(-(a * a)) * (2 * std::numbers::inv_sqrtpi); });
      case ScalarOp::sigmoid:
        return add(in.a, [&] { return g * y * (1.0 - y); });
      case ScalarOp::float32:
      case ScalarOp::bfloat16:
      case ScalarOp::float16:
        return add(in.a, [&] { return g; });
    }
  }

  // b a^(b - 1); skips the gradient of the exponent if it is constant, as it usually is.
  Tensor power_slope(const Instruction& in, const Tensor& a, const Tensor& b) const {
    const int constant = in.b - program_.inputs;
    if (constant < 0 || program_.code[constant].op != ScalarOp::constant)
      return b * pow(a, b - 1.0);
    const double exponent = program_.code[constant].value;
    return exponent * pow(a, exponent - 1);
  }

  const ScalarProgram& program_;
  Tensors values_;            // for each register
  std::vector<bool> needed_;  // for each register
  Tensors grads_;             // d result / d register; undefined: none yet
};

Broadcast broadcast_or_throw(const std::string& op_name, const Shape& in, const Shape& out) {
  Broadcast broadcast;
  if (!broadcast_of(in, out, &broadcast))
    throw ShapeError(
        fmt::format("{}: an input of shape {} cannot be broadcast to {}: its axes with sizes other "
                    "than 1 must be adjacent; use expand() first",
                    op_name, in.text(), out.text()));
  return broadcast;
}

Specs infer_pointwise(const PointwiseParams& params, SpecView in) {
  if (in.size() != static_cast<size_t>(params.program.inputs))
    throw ShapeError(fmt::format("{}: expects {} inputs, but got {}", params.name,
                                 params.program.inputs, in.size()));
  Shape out = in[0].shape;
  for (const TensorSpec& x : in) {
    if (!are_mixable(x.dtype, in[0].dtype))
      throw ShapeError(fmt::format(
          "{}: inputs must be floating point and not mix float64 with others, but are {} and {}; "
          "use cast()",
          params.name, in[0].text(), x.text()));
    out = broadcast(out, x.shape, params.name);
  }
  for (const TensorSpec& x : in) broadcast_or_throw(params.name, x.shape, out);
  const DType type = result_type(params.program, compute_type(in[0].dtype));
  if (is_half(type) && in[0].dtype == DType::f64)
    throw ShapeError(fmt::format("{}: a program in float64 cannot round to {}; use cast()",
                                 params.name, name_of(type)));
  return {{type, out, {}}};
}

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(PointwisePlan plan, int64_t total) : plan_(std::move(plan)), total_(total) {}

  void run(Context& ctx, Buffers in, Buffers out, Buffer) override {
    const void* inputs[kMaxScalarRegisters];
    for (size_t k = 0; k < in.size(); ++k) inputs[k] = in[k].data;
    const PointwiseRun run(plan_, inputs, out[0].data);
    for_chunks(static_cast<CpuContext&>(ctx).pool(), total_,
               [&](int64_t first, int64_t count) { run.apply(first, count); });
  }

 private:
  const PointwisePlan plan_;
  const int64_t total_;
};

std::unique_ptr<Kernel> prepare_pointwise(const PointwiseParams& params, SpecView in,
                                          Context& ctx) {
  if constexpr (kCuda)
    if (!ctx.device().is_cpu())
      return pointwise_cuda(params.program, in, infer_pointwise(params, in)[0].dtype);
  const TensorSpec out = infer_pointwise(params, in)[0];
  std::vector<Broadcast> broadcasts;
  PointwiseOptions stored{.result = out.dtype};
  for (const TensorSpec& x : in) {
    broadcasts.push_back(broadcast_or_throw(params.name, x.shape, out.shape));
    stored.inputs.push_back(x.dtype);
  }
  const int64_t total = out.shape.elements();
  return std::make_unique<PointwiseKernel>(
      PointwisePlan(params.program, compute_type(in[0].dtype), broadcasts, total, stored), total);
}

std::vector<bool> inputs_read(const ScalarProgram& program) {
  std::vector<bool> read(static_cast<size_t>(program.registers()), false);
  if (program.code.empty()) read[0] = true;
  for (const Instruction& in : program.code)
    for (int k = 0; k < operand_count(in.op); ++k) read[in.operand(k)] = true;
  read.resize(static_cast<size_t>(program.inputs));
  return read;
}

// Returns the op of `program` without its unused inputs; keeps them if no used input has the shape
// of the output. Input k of the program is input from[k] in the sense of FusedOp.
FusedOp reading_no_more(const std::string& name, const ScalarProgram& program,
                        const std::vector<int>& from, const std::vector<TensorSpec>& in,
                        const Shape& out) {
  const std::vector<bool> read = inputs_read(program);
  bool whole = false;
  for (size_t k = 0; k < read.size(); ++k) whole = whole || (read[k] && in[k].shape == out);
  std::vector<int> map, kept;
  for (size_t k = 0; k < read.size(); ++k) {
    const bool stays = !whole || read[k];
    map.push_back(stays ? static_cast<int>(kept.size()) : 0);
    if (stays) kept.push_back(from[k]);
  }
  ScalarProgram packed = rename_inputs(program, map, static_cast<int>(kept.size()));
  return {std::make_shared<Pointwise>(PointwiseParams{name, std::move(packed)}), kept};
}

class PointwiseUpdate final : public OpBase<PointwiseUpdate, PointwiseParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return params.name; }
  Specs infer(SpecView in) const override {
    const Specs out = infer_pointwise(params, in);
    if (out[0].shape != in[0].shape)
      throw ShapeError(
          fmt::format("{}: the result must have the shape of the updated tensor ({}), but is {}",
                      params.name, in[0].text(), out[0].text()));
    return {in[0]};
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx, const Algorithm&) const override {
    return prepare_pointwise(params, in, ctx);
  }
  int updates(int) const override { return 0; }
  Cost cost(SpecView in) const override {
    return cost_with(in, params.program.operations() * in[0].shape.elements());
  }
};

}  // namespace

bool broadcast_of(const Shape& in, const Shape& out, Broadcast* result) {
  if (in.rank() > out.rank()) return false;
  *result = {};
  bool started = false, ended = false;
  for (int i = 1; i <= out.rank(); ++i) {
    int64_t size = i <= in.rank() ? in[-i] : 1, whole = out[-i];
    if (size != whole && size != 1) return false;
    if (whole == 1) continue;
    if (size == whole) {
      if (ended) return false;
      started = true;
      result->period *= size;
    } else if (started) {
      ended = true;
    } else {
      result->repeat *= whole;
    }
  }
  if (result->period == 1) result->repeat = 1;
  return true;
}

Pointwise::Pointwise(PointwiseParams p, std::vector<PointwiseGrad> grads)
    : OpBase(std::move(p)), grads_(std::move(grads)) {
  if (!grads_.empty() && grads_.size() != static_cast<size_t>(params.program.inputs))
    throw InternalError(fmt::format("{}: {} inputs but {} gradients", params.name,
                                    params.program.inputs, grads_.size()));
}

Specs Pointwise::infer(SpecView in) const { return infer_pointwise(params, in); }

std::unique_ptr<Kernel> Pointwise::prepare(SpecView in, Context& ctx, const Algorithm&) const {
  return prepare_pointwise(params, in, ctx);
}

Saved Pointwise::saved() const {
  Saved saved;
  if (grads_.empty())
    return {.inputs = params.program.inputs < 32 ? (1u << params.program.inputs) - 1 : ~0u};
  for (const PointwiseGrad& grad : grads_)
    for (int use : grad.uses) {
      if (use >= 0) saved.inputs |= 1u << use;
      if (use == PointwiseGrad::kOutput) saved.outputs = 1;
    }
  return saved;
}

Tensors Pointwise::grad(const GradArgs& args) const {
  if (grads_.empty()) {
    Tensors gradients =
        Replay(params.program, {args.inputs.begin(), args.inputs.end()}, args.needed)
            .run(args.grad_outputs[0]);
    for (size_t k = 0; k < gradients.size(); ++k)
      if (gradients[k].defined()) gradients[k] = sum_to(gradients[k], args.input_specs[k].shape);
    return gradients;
  }
  Tensors result(grads_.size());
  for (size_t k = 0; k < grads_.size(); ++k) {
    if (!args.needs(static_cast<int>(k))) continue;
    const PointwiseGrad& rule = grads_[k];
    Tensors uses;
    for (int use : rule.uses)
      uses.push_back(use == PointwiseGrad::kGradient ? args.grad_outputs[0]
                     : use == PointwiseGrad::kOutput ? args.outputs[0]
                                                     : args.inputs[use]);
    const TensorSpec& input = args.input_specs[k];
    // Terms that are summed for a float32 input, such as a bias, are not rounded to 16 bits.
    std::optional<DType> wide;
    if (!is_half(input.dtype)) wide = input.dtype;
    Tensor grad = rule.program.code.empty()
                      ? uses[0]
                      : tessera::pointwise(params.name + "_grad", rule.program, uses, {}, wide);
    result[k] = sum_to(grad.shape() == input.shape ? grad : cast(grad, input.dtype), input.shape);
  }
  return result;
}

uint32_t Pointwise::may_reuse(int) const {
  // The compiler checks sizes: broadcast inputs are smaller than the output.
  return params.program.inputs >= 32 ? 0 : (1u << params.program.inputs) - 1;
}

std::optional<FusedOp> Pointwise::simplified(SpecView in) const {
  const SimplifiedProgram shorter = tessera::simplified(params.program, in[0].dtype);
  const TensorSpec result = infer(in)[0];
  const Shape& out = result.shape;
  const auto equals = [&](int input) {
    const TensorSpec& spec = in[input];
    return spec.shape == out && spec.dtype == result.dtype;
  };
  if (shorter.input >= 0 && equals(shorter.input)) return FusedOp{nullptr, {shorter.input}};
  std::vector<int> from;
  for (int k = 0; k < params.program.inputs; ++k) from.push_back(k);
  FusedOp packed = reading_no_more(params.name, shorter.program, from, {in.begin(), in.end()}, out);
  const bool fewer = packed.inputs.size() < in.size();
  const bool changed = shorter.changed && shorter.input < 0;
  return fewer || changed ? std::optional(std::move(packed)) : std::nullopt;
}

// Fuses if the joined program is no longer than this one alone.
std::optional<FusedOp> Pointwise::fuse_producer(const Op& producer, int input, SpecView in,
                                                SpecView producer_in) const {
  const std::optional<ScalarProgram> first = producer.pointwise();
  const Shape out = infer(in)[0].shape;
  if (!first || in[input].shape != out) return std::nullopt;
  if (first->registers() + params.program.registers() > kMaxScalarRegisters) return std::nullopt;
  Specs specs(producer_in.begin(), producer_in.end());
  std::vector<int> from;
  for (int k = 0; k < first->inputs; ++k) from.push_back(-1 - k);
  for (int k = 0; k < params.program.inputs; ++k) {
    if (k == input) continue;
    from.push_back(k);
    specs.push_back(in[k]);
  }
  const SimplifiedProgram joined =
      tessera::simplified(compose(*first, params.program, input), in[0].dtype);
  if (joined.input >= 0) {
    const auto k = static_cast<size_t>(joined.input);
    if (specs[k].shape != out || specs[k].dtype != infer(in)[0].dtype) return std::nullopt;
    return FusedOp{nullptr, {from[k]}};
  }
  if (joined.program.operations() > params.program.operations()) return std::nullopt;
  const std::string name = std::string(producer.name()) + "+" + params.name;
  return reading_no_more(name, joined.program, from, specs, out);
}

Tensor pointwise(std::string name, ScalarProgram program, Tensors inputs,
                 std::vector<PointwiseGrad> grads, std::optional<DType> result) {
  DType type = inputs.empty() ? DType::f32 : inputs[0].dtype();
  for (const Tensor& x : inputs) type = promoted(type, x.dtype());
  type = result.value_or(type);
  if (result || is_half(type)) program = with_result(std::move(program), type);
  auto op = std::make_shared<Pointwise>(PointwiseParams{std::move(name), std::move(program)},
                                        std::move(grads));
  return apply1(op, std::move(inputs));
}

Tensor pointwise_update(std::string name, ScalarProgram program, Tensors inputs) {
  const NoGradScope no_grad;
  if (is_half(inputs[0].dtype())) program = with_result(std::move(program), inputs[0].dtype());
  PointwiseParams params{std::move(name), std::move(program)};
  return apply1(std::make_shared<PointwiseUpdate>(std::move(params)), std::move(inputs));
}

}  // namespace tessera
