#include "tessera/engine/pointwise.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise_cuda.h"
#include "tessera/engine/pointwise_run.h"
#include "tessera/engine/scalar_gradient.h"
#include "tessera/engine/scalar_simplify.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Elements one task works on: whole steps of compiled code, half of a second-level cache.
constexpr int64_t kChunk = 1 << 14;

Broadcast broadcast_or_throw(const std::string& who, const Shape& in, const Shape& out) {
  Broadcast broadcast;
  if (!broadcast_of(in, out, &broadcast))
    throw ShapeError(fmt::format(
        "{}: an input of shape {} cannot be read along {}: its axes that are not 1 must stand side "
        "by side; use expand() first",
        who, in.text(), out.text()));
  return broadcast;
}

Specs infer_pointwise(const PointwiseParams& params, std::span<const TensorSpec> in) {
  if (in.size() != static_cast<size_t>(params.program.inputs))
    throw ShapeError(fmt::format("{}: expects {} inputs, given {}", params.name,
                                 params.program.inputs, in.size()));
  Shape out = in[0].shape;
  for (const TensorSpec& x : in) {
    if (!is_float(x.dtype) || x.dtype != in[0].dtype)
      throw ShapeError(
          fmt::format("{}: inputs must be of one floating-point dtype, given {} and "
                      "{}; use cast()",
                      params.name, in[0].text(), x.text()));
    out = broadcast(out, x.shape, params.name);
  }
  for (const TensorSpec& x : in) broadcast_or_throw(params.name, x.shape, out);
  return {{in[0].dtype, out, {}}};
}

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(const ScalarProgram& program, DType dtype, std::span<const Broadcast> broadcasts,
                  int64_t total)
      : plan_(program, dtype, broadcasts, total), total_(total) {}

  void run(Context& where, Buffers in, Buffers out, Buffer) override {
    const void* inputs[kMaxScalarRegisters];
    for (size_t k = 0; k < in.size(); ++k) inputs[k] = in[k].data;
    const PointwiseRun run(plan_, inputs, out[0].data);
    const int64_t chunks = (total_ + kChunk - 1) / kChunk;
    static_cast<CpuContext&>(where).pool().parallel_for(chunks, [&](int64_t chunk) {
      const int64_t first = chunk * kChunk;
      run.apply(first, std::min(kChunk, total_ - first));
    });
  }

 private:
  const PointwisePlan plan_;
  const int64_t total_;
};

std::unique_ptr<Kernel> prepare_pointwise(const PointwiseParams& params,
                                          std::span<const TensorSpec> in, Context& where) {
  if constexpr (kCuda)
    if (!where.device().is_cpu()) return pointwise_cuda(params.program, in);
  const Shape out = infer_pointwise(params, in)[0].shape;
  std::vector<Broadcast> broadcasts;
  for (const TensorSpec& x : in)
    broadcasts.push_back(broadcast_or_throw(params.name, x.shape, out));
  return std::make_unique<PointwiseKernel>(params.program, in[0].dtype, broadcasts, out.elements());
}

std::vector<bool> inputs_read(const ScalarProgram& program) {
  std::vector<bool> read(static_cast<size_t>(program.registers()), false);
  if (program.code.empty()) read[0] = true;
  for (const Instruction& in : program.code) {
    const int operands = operand_count(in.op);
    if (operands > 0) read[in.a] = true;
    if (operands > 1) read[in.b] = true;
    if (operands > 2) read[in.c] = true;
  }
  read.resize(static_cast<size_t>(program.inputs));
  return read;
}

// The op of a program without the inputs that it does not read, as far as those that stay have
// the shape of the output. Input k of the program is input from[k] in the sense of Absorbed.
Absorbed reading_no_more(const std::string& name, const ScalarProgram& program,
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

class PointwiseUpdate final : public OpBase<PointwiseUpdate> {
 public:
  explicit PointwiseUpdate(PointwiseParams p) : params(std::move(p)) {}
  std::string_view name() const override { return params.name; }
  Specs infer(std::span<const TensorSpec> in) const override {
    const Specs out = infer_pointwise(params, in);
    if (out[0].shape != in[0].shape)
      throw ShapeError(fmt::format("{}: what becomes {} must not be larger, is {}", params.name,
                                   in[0].text(), out[0].text()));
    return {in[0]};
  }
  bool runs_on(DeviceKind kind) const override { return kCuda || kind == DeviceKind::cpu; }
  std::unique_ptr<Kernel> prepare(std::span<const TensorSpec> in, Context& where,
                                  const Algorithm&) const override {
    return prepare_pointwise(params, in, where);
  }
  int updates(int) const override { return 0; }
  Cost cost(std::span<const TensorSpec> in) const override {
    return cost_with(in, params.program.operations() * in[0].shape.elements());
  }

  const PointwiseParams params;
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
    : params(std::move(p)), grads_(std::move(grads)) {
  if (!grads_.empty() && grads_.size() != static_cast<size_t>(params.program.inputs))
    throw InternalError(fmt::format("{}: {} inputs but {} gradients", params.name,
                                    params.program.inputs, grads_.size()));
}

bool Pointwise::runs_on(DeviceKind kind) const { return kCuda || kind == DeviceKind::cpu; }

Specs Pointwise::infer(std::span<const TensorSpec> in) const { return infer_pointwise(params, in); }

std::unique_ptr<Kernel> Pointwise::prepare(std::span<const TensorSpec> in, Context& where,
                                           const Algorithm&) const {
  return prepare_pointwise(params, in, where);
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
    Tensors slopes = scalar_gradient(params.program, {args.inputs.begin(), args.inputs.end()},
                                     args.grad_outputs[0], args.needed);
    for (size_t k = 0; k < slopes.size(); ++k)
      if (slopes[k].defined()) slopes[k] = sum_to(slopes[k], args.input_specs[k].shape);
    return slopes;
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
    Tensor grad = rule.program.code.empty()
                      ? uses[0]
                      : tessera::pointwise(params.name + "_grad", rule.program, std::move(uses));
    result[k] = sum_to(grad, args.input_specs[k].shape);
  }
  return result;
}

uint32_t Pointwise::may_reuse(int) const {
  // The compiler checks sizes: an input that is broadcast is smaller than the output.
  return params.program.inputs >= 32 ? 0 : (1u << params.program.inputs) - 1;
}

std::optional<Absorbed> Pointwise::simplified(std::span<const TensorSpec> in) const {
  const SimplifiedProgram shorter = tessera::simplified(params.program, in[0].dtype);
  const Shape out = infer(in)[0].shape;
  if (shorter.input >= 0 && in[static_cast<size_t>(shorter.input)].shape == out)
    return Absorbed{nullptr, {shorter.input}};
  std::vector<int> from;
  for (int k = 0; k < params.program.inputs; ++k) from.push_back(k);
  Absorbed packed =
      reading_no_more(params.name, shorter.program, from, {in.begin(), in.end()}, out);
  const bool fewer = packed.inputs.size() < in.size();
  const bool changed = shorter.changed && shorter.input < 0;
  return fewer || changed ? std::optional(std::move(packed)) : std::nullopt;
}

// Where the two programs in one are no longer than this one alone.
std::optional<Absorbed> Pointwise::absorb_producer(const Op& producer, int input,
                                                   std::span<const TensorSpec> in,
                                                   std::span<const TensorSpec> producer_in) const {
  const std::optional<ScalarProgram> first = producer.pointwise();
  const Shape out = infer(in)[0].shape;
  if (!first || in[static_cast<size_t>(input)].shape != out) return std::nullopt;
  if (first->registers() + params.program.registers() > kMaxScalarRegisters) return std::nullopt;
  Specs specs(producer_in.begin(), producer_in.end());
  std::vector<int> from;
  for (int k = 0; k < first->inputs; ++k) from.push_back(-1 - k);
  for (int k = 0; k < params.program.inputs; ++k) {
    if (k == input) continue;
    from.push_back(k);
    specs.push_back(in[static_cast<size_t>(k)]);
  }
  const SimplifiedProgram joined =
      tessera::simplified(compose(*first, params.program, input), in[0].dtype);
  if (joined.input >= 0) {
    const auto k = static_cast<size_t>(joined.input);
    if (specs[k].shape != out) return std::nullopt;
    return Absorbed{nullptr, {from[k]}};
  }
  if (joined.program.operations() > params.program.operations()) return std::nullopt;
  const std::string name = std::string(producer.name()) + "+" + params.name;
  return reading_no_more(name, joined.program, from, specs, out);
}

Tensor pointwise(std::string name, ScalarProgram program, Tensors inputs,
                 std::vector<PointwiseGrad> grads) {
  auto op = std::make_shared<Pointwise>(PointwiseParams{std::move(name), std::move(program)},
                                        std::move(grads));
  return apply1(op, std::move(inputs));
}

Tensor pointwise_update(std::string name, ScalarProgram program, Tensors inputs) {
  const NoGradScope no_grad;
  PointwiseParams params{std::move(name), std::move(program)};
  return apply1(std::make_shared<PointwiseUpdate>(std::move(params)), std::move(inputs));
}

}  // namespace tessera
