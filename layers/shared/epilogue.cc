#include "tessera/layers/shared/epilogue.h"

#include <algorithm>
#include <cmath>

namespace tessera {

PointwisePlan epilogue_plan(const ScalarProgram& program, SpecView extra, const TensorSpec& result,
                            DType to) {
  std::vector<Broadcast> broadcasts(static_cast<size_t>(program.inputs));
  PointwiseOptions stored{.result = to};
  for (size_t k = 0; k < broadcasts.size(); ++k) {
    const TensorSpec& input = k == 0 ? result : extra[k - 1];
    broadcast_of(input.shape, result.shape, &broadcasts[k]);
    stored.inputs.push_back(input.dtype);
  }
  return {program, compute_type(result.dtype), broadcasts, result.shape.elements(), stored};
}

template <class T>
BiasActivation<T> BiasActivationPlan::bound_to(Buffers extra, T* result) const {
  const auto data = [&]<class S>(S, int k) {
    return k < 0 ? nullptr : extra[static_cast<size_t>(k)].as<S>();
  };
  BiasActivation<T> bound{data(0.0f, scale),
                          data(0.0f, bias),
                          data(T(), residual),
                          data(0.0f, residual_scale),
                          data(0.0f, residual_bias),
                          low,
                          high,
                          result};
  if constexpr (!std::is_same_v<T, float>)
    bound.normal =
        bias >= 0 && bound.biases_are_normal(extra[static_cast<size_t>(bias)].elements());
  return bound;
}
template BiasActivation<float> BiasActivationPlan::bound_to(Buffers, float*) const;
template BiasActivation<bfloat16> BiasActivationPlan::bound_to(Buffers, bfloat16*) const;

namespace {

// Matches a program to a BiasActivation, from its result on.
struct ActivationMatch {
  const ScalarProgram& p;
  SpecView extra;
  const Shape& result;
  DType dtype;
  BiasActivationPlan plan = {};

  bool rounds() const { return dtype == DType::bf16; }

  const Instruction* made_by(ScalarOp op, int r) const {
    const Instruction* in = r < p.inputs ? nullptr : &p.code[r - p.inputs];
    return in && in->op == op ? in : nullptr;
  }
  // Moves r to the other operand of a bound by a constant.
  void take_bound(ScalarOp op, int& r, float& bound) const {
    const Instruction* in = made_by(op, r);
    const Instruction* constant = in ? made_by(ScalarOp::constant, in->b) : nullptr;
    if (constant == nullptr) return;
    const auto value = static_cast<float>(constant->value);
    if (std::isnan(value) || (value == 0 && (op == ScalarOp::min || std::signbit(value)))) return;
    if (rounds() && static_cast<float>(bfloat16(value)) != value) return;
    bound = value, r = in->a;
    take_rounding(r);  // a bound of numbers that are rounded
  }
  // Moves r to what it rounds. Returns whether it does so, or need not.
  bool take_rounding(int& r) const {
    const Instruction* in = rounds() ? made_by(ScalarOp::bfloat16, r) : nullptr;
    if (in) r = in->a;
    return in || !rounds();
  }
  // Sets `at` if r is an input with that shape and dtype.
  bool is_input(int r, int64_t elements, DType type, int& at) const {
    if (r == 0 || r >= p.inputs) return false;
    const auto& [of, shape, device] = extra[r - 1];
    if (shape.elements() != elements || shape.back() != result.back() || of != type) return false;
    at = r - 1;
    return true;
  }
  bool is_of_channels(int r, int& at) const { return is_input(r, result.back(), DType::f32, at); }
  // Returns whether r is made by `op` of two registers, in either order, for which this is true.
  template <class Match>
  bool is(ScalarOp op, int r, Match match) {
    const Instruction* in = made_by(op, r);
    return in && (match(in->a, in->b) || match(in->b, in->a));
  }
  // Returns whether r is x + bias or, if it rounds, x scale + bias, for an x for which this is
  // true.
  template <class Match>
  bool is_biased(int r, Match match, int& scale, int& bias) {
    const auto scaled = [&](int x) {
      return rounds() && is(ScalarOp::mul, x,
                            [&](int a, int b) { return match(a) && is_of_channels(b, scale); });
    };
    return is(ScalarOp::add, r,
              [&](int x, int y) { return is_of_channels(y, bias) && (match(x) || scaled(x)); });
  }
  bool is_biased_sum(int r) {
    const auto sum = [&](int x) { return take_rounding(x) && x == 0; };
    return is_biased(r, sum, plan.scale, plan.bias);
  }
  bool is_residual(int r) {
    const auto residual = [&](int x) {
      return is_input(x, result.elements(), dtype, plan.residual);
    };
    return residual(r) ||
           (take_rounding(r) && is_biased(r, residual, plan.residual_scale, plan.residual_bias));
  }
  bool matches() {
    int r = p.result();
    if (!take_rounding(r)) return false;
    if (r == 0) return rounds();
    take_bound(ScalarOp::min, r, plan.high);
    take_bound(ScalarOp::max, r, plan.low);
    return is_biased_sum(r) || is(ScalarOp::add, r, [&](int x, int y) {
             return take_rounding(x) && is_biased_sum(x) && is_residual(y);
           });
  }
};

}  // namespace

std::optional<BiasActivationPlan> bias_activation(const ScalarProgram& p, SpecView extra,
                                                  const TensorSpec& result, DType to) {
  if ((to != DType::f32 && to != DType::bf16) || result.dtype != DType::f32) return std::nullopt;
  ActivationMatch match{p, extra, result.shape, to};
  return match.matches() ? std::optional(match.plan) : std::nullopt;
}

EpilogueRun::EpilogueRun(const PointwisePlan& plan, Buffers extra, const Buffer& from,
                         const Buffer& to) {
  if (plan.is_identity()) return;
  const void* inputs[kMaxScalarRegisters] = {from.data};
  for (size_t k = 0; k < extra.size(); ++k) inputs[k + 1] = extra[k].data;
  run_.emplace(plan, inputs, to.data);
}

std::optional<ScalarProgram> join_epilogue(const ScalarProgram& own, const ScalarProgram& p,
                                           int fused_input, const TensorSpec& result,
                                           SpecView p_in) {
  if (p_in[static_cast<size_t>(fused_input)].shape != result.shape) return std::nullopt;
  for (const TensorSpec& spec : p_in) {
    Broadcast broadcast;
    if (!are_mixable(spec.dtype, result.dtype) ||
        !broadcast_of(spec.shape, result.shape, &broadcast))
      return std::nullopt;
  }
  ScalarProgram whole = compose(own, p, fused_input);
  if (whole.registers() > kMaxScalarRegisters) return std::nullopt;
  return whole;
}

namespace {

// Returns true if computing the function takes longer than storing and loading its result, so users
// should not recompute it.
bool is_slow(const Instruction& instruction) {
  const ScalarOp op = instruction.op;
  return op == ScalarOp::pow || op == ScalarOp::log ||
         (op >= ScalarOp::tanh && op <= ScalarOp::erf);
}

// Returns the index of i when `left_out` is not counted.
int place_without(int i, int left_out) { return i > left_out ? i - 1 : i; }

}  // namespace

std::optional<ScalarProgram> join_prologue(const ScalarProgram& own, const ScalarProgram& p,
                                           int at) {
  const ScalarProgram whole = compose(p, own, at);
  if (whole.registers() > kMaxScalarRegisters) return std::nullopt;
  std::vector<int> map;
  for (int k = 0; k < p.inputs; ++k) map.push_back(own.inputs - 1 + k);
  for (int k = 0; k < own.inputs; ++k)
    if (k != at) map.push_back(place_without(k, at));
  return rename_inputs(whole, map, whole.inputs);
}

int primary_input(const ScalarProgram& p, const TensorSpec& made, SpecView p_in) {
  int main = -1;
  if (std::any_of(p.code.begin(), p.code.end(), is_slow)) return -1;
  for (int k = 0; k < p.inputs; ++k) {
    const TensorSpec& spec = p_in[static_cast<size_t>(k)];
    Broadcast broadcast;
    if (!are_mixable(spec.dtype, made.dtype) || !broadcast_of(spec.shape, made.shape, &broadcast))
      return -1;
    if (main < 0 && spec.shape == made.shape) main = k;
  }
  return main;
}

ScalarProgram move_input_first(const ScalarProgram& p, int main) {
  std::vector<int> map;
  for (int k = 0; k < p.inputs; ++k) map.push_back(k == main ? 0 : 1 + place_without(k, main));
  return rename_inputs(p, map, p.inputs);
}

std::vector<int> join_inputs(size_t own, const ScalarProgram& p, int fused_input) {
  std::vector<int> inputs;
  for (int i = 0; i < static_cast<int>(own); ++i) inputs.push_back(i);
  for (int i = 0; i < p.inputs; ++i)
    if (i != fused_input) inputs.push_back(-1 - i);
  return inputs;
}

}  // namespace tessera
