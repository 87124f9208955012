// ScalarProgram: a function of scalars as a list of instructions. The pointwise op runs it on every
// element, fusion joins programs, and kernels apply it to their output while that is in the cache.
#pragma once

#include <bit>
#include <cstdint>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

enum class DType : uint8_t;

enum class ScalarOp : uint8_t {
  constant,  // value
  add,
  sub,
  mul,
  div,
  max,         // a NaN in either operand gives NaN; b if both are equal
  min,         // like max
  pow,         // a, b
  greater,     // a > b ? 1 : 0
  less_equal,  // a <= b ? 1 : 0
  select,      // a != 0 ? b : c
  neg,
  abs,
  exp,
  log,
  sqrt,
  tanh,
  sin,
  cos,
  erf,
  sigmoid,
  float32,   // a: ends a program whose result has this type though the one before has 16 bits
  bfloat16,  // a, rounded to that type
  float16,
};

const char* name_of(ScalarOp op);  // "add"
constexpr int operand_count(ScalarOp op) {
  return op == ScalarOp::constant ? 0 : op < ScalarOp::select ? 2 : op == ScalarOp::select ? 3 : 1;
}

struct Instruction {
  ScalarOp op = ScalarOp::constant;
  uint8_t a = 0, b = 0, c = 0;  // registers
  double value = 0;             // if constant
  constexpr uint8_t operand(int k) const { return k == 0 ? a : k == 1 ? b : c; }
  // Replaces each register r by fn(r), unused ones too.
  template <class F>
  constexpr void rename(F&& fn) {
    for (uint8_t* r : {&a, &b, &c}) *r = static_cast<uint8_t>(fn(*r));
  }
  // Replaces each operand r by fn(r), and unused registers by 0.
  template <class F>
  constexpr void rename_operands(F&& fn) {
    int k = 0;
    for (uint8_t* r : {&a, &b, &c})
      *r = k++ < operand_count(op) ? static_cast<uint8_t>(fn(*r)) : uint8_t{0};
  }
  // 0 and -0 are different constants.
  constexpr bool operator==(const Instruction& other) const {
    return op == other.op && a == other.a && b == other.b && c == other.c &&
           std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(other.value);
  }
};

// Registers 0 .. inputs-1 are the inputs; instruction i writes register inputs + i. The result is
// the last register (input 0 without instructions). Every intermediate is rounded to the type that
// the program computes in, so a program gives the same bits fused or as separate ops.
//
// Programs compute in float32 or float64. A result of 16 bits is rounded by the last instruction,
// which is also what says that it has 16 bits (result_type()). In a joined program such an
// instruction rounds where the separate ops stored a tensor.
struct ScalarProgram {
  int inputs = 0;
  std::vector<Instruction> code;
  bool operator==(const ScalarProgram&) const = default;
  int result() const { return code.empty() ? 0 : inputs + static_cast<int>(code.size()) - 1; }
  int registers() const { return inputs + static_cast<int>(code.size()); }
  int operations() const;  // per element: instructions except constants
  std::string text() const;
};

inline constexpr int kMaxScalarRegisters = 32;

// Returns the dtype of the result of a program that computes in `type`: the 16 bits to which its
// last instruction rounds, else `type`.
DType result_type(const ScalarProgram& p, DType type);
// Returns `p` with a result of this dtype, which must be float64 if `p` computes in that.
ScalarProgram with_result(ScalarProgram p, DType type);

// Builds a program:
//   ScalarBuilder b(2);
//   auto y = b.add(b.mul(b.in(0), b.in(1)), b.value(1));
//   b.build(y)
class ScalarBuilder {
 public:
  using Register = uint8_t;
  explicit ScalarBuilder(int inputs) { program_.inputs = inputs; }
  Register in(int i) const { return static_cast<Register>(i); }
  Register value(double v) { return push({ScalarOp::constant, 0, 0, 0, v}); }
  Register push(ScalarOp op, int a, int b = 0, int c = 0) {
    return push({op, static_cast<uint8_t>(a), static_cast<uint8_t>(b), static_cast<uint8_t>(c), 0});
  }
  Register add(int a, int b) { return push(ScalarOp::add, a, b); }
  Register sub(int a, int b) { return push(ScalarOp::sub, a, b); }
  Register mul(int a, int b) { return push(ScalarOp::mul, a, b); }
  Register div(int a, int b) { return push(ScalarOp::div, a, b); }
  // Returns the program whose result is register `result`, without dead instructions.
  ScalarProgram build(int result) const;

 private:
  Register push(const Instruction& instruction);
  ScalarProgram program_;
};

// Returns g(..., f(...), ...), where input `fused_input` of `g` is the result of `f`. Its inputs
// are those of f, then those of g without `fused_input`.
ScalarProgram compose(const ScalarProgram& f, const ScalarProgram& g, int fused_input);
// Returns the part of `p` on which register `result`, written by an instruction, depends.
ScalarProgram live_part(const ScalarProgram& p, int result);
// Renumbers the inputs: input i becomes input map[i] of `inputs`.
ScalarProgram rename_inputs(const ScalarProgram& p, const std::vector<int>& map, int inputs);

struct SimplifiedProgram {
  ScalarProgram program;  // has the same inputs, but may read fewer
  bool changed = false;
  int input = -1;  // the input that equals the result, or -1
};

// Simplifies a program algebraically, with the same bits for every input, including infinities, -0
// and NaN. (A signalling NaN, which no arithmetic produces, may stay one.)
//
// Folds constants as the interpreter would for `dtype`. Keeps the type of the result. Drops neutral
// elements, double negations, bounds within bounds, common subexpressions and dead code. A division
// by a power of two becomes a multiplication. Equal constants are not merged: they cost nothing,
// and compiled programs (pointwise_precompiled.h) have one for each use.
SimplifiedProgram simplified(const ScalarProgram& program, DType dtype);

// How a program reads an input: x[(i / repeat) % period] for element i of the output.
struct Broadcast {
  int64_t repeat = 1, period = 1;
};

}  // namespace tessera

// Stages of scalar programs, written as expressions: relu(norm(x)) is the program of both. Ops are
// built from them (program<1>(relu)), as is the table of compiled programs
// (pointwise_precompiled.h).
namespace tessera::stages {

// A program under construction. Until all inputs are known, instruction j writes register
// kMaxScalarRegisters + j.
struct Draft {
  int inputs = 0, length = 0;
  uint32_t channels = 0;  // bit k: input k usually has one value per channel
  Instruction code[kMaxScalarRegisters] = {};

  constexpr int append(const Instruction& instruction) {
    code[length] = instruction;
    return kMaxScalarRegisters + length++;
  }
};

// A register of a Draft, or a constant, which gets a register at each use.
struct Scalar {
  Draft* draft = nullptr;
  int at = 0;
  double constant = 0;

  constexpr Scalar(double constant) : constant(constant) {}
  constexpr Scalar(Draft* draft, int at) : draft(draft), at(at) {}
  constexpr Scalar input() const { return {draft, draft->inputs++}; }  // the next one
  constexpr Scalar channel() const {
    draft->channels |= uint32_t{1} << draft->inputs;
    return input();
  }
  constexpr Scalar value(double v) const {
    return {draft, draft->append({ScalarOp::constant, 0, 0, 0, v})};
  }
};

template <class... S>
constexpr Scalar push(ScalarOp op, S... operands) {
  Draft* draft = nullptr;
  ((draft = operands.draft != nullptr ? operands.draft : draft), ...);
  const Scalar any(draft, 0);
  const uint8_t at[3] = {static_cast<uint8_t>(
      operands.draft != nullptr ? operands.at : any.value(operands.constant).at)...};
  return {draft, draft->append({op, at[0], at[1], at[2], 0})};
}

constexpr Scalar operator+(Scalar a, Scalar b) { return push(ScalarOp::add, a, b); }
constexpr Scalar operator-(Scalar a, Scalar b) { return push(ScalarOp::sub, a, b); }
constexpr Scalar operator*(Scalar a, Scalar b) { return push(ScalarOp::mul, a, b); }
constexpr Scalar operator/(Scalar a, Scalar b) { return push(ScalarOp::div, a, b); }
constexpr Scalar operator>(Scalar a, Scalar b) { return push(ScalarOp::greater, a, b); }
constexpr Scalar max(Scalar a, Scalar b) { return push(ScalarOp::max, a, b); }
constexpr Scalar min(Scalar a, Scalar b) { return push(ScalarOp::min, a, b); }
constexpr Scalar select(Scalar a, Scalar b, Scalar c) { return push(ScalarOp::select, a, b, c); }
constexpr Scalar abs(Scalar a) { return push(ScalarOp::abs, a); }
constexpr Scalar exp(Scalar a) { return push(ScalarOp::exp, a); }
constexpr Scalar tanh(Scalar a) { return push(ScalarOp::tanh, a); }
constexpr Scalar erf(Scalar a) { return push(ScalarOp::erf, a); }

// Returns the program of `stage`, whose arguments are the first kInputs inputs; a stage may add
// inputs.
template <int kInputs, class Stage>
ScalarProgram program(const Stage& stage) {
  Draft draft{.inputs = kInputs};
  [&]<int... K>(std::integer_sequence<int, K...>) { stage(Scalar(&draft, K)...); }
  (std::make_integer_sequence<int, kInputs>());
  const auto numbered = [&](uint8_t r) {
    return r < kMaxScalarRegisters ? r : r - kMaxScalarRegisters + draft.inputs;
  };
  ScalarProgram program{draft.inputs, {draft.code, draft.code + draft.length}};
  for (Instruction& in : program.code) in.rename(numbered);
  return program;
}

// Sums and products with an extra input.
constexpr Scalar plus(Scalar x) { return x + x.input(); }
constexpr Scalar onto(Scalar x) { return x.input() + x; }
constexpr Scalar times(Scalar x) { return x * x.input(); }
constexpr Scalar minus(Scalar x) { return x - x.input(); }
constexpr Scalar affine(Scalar x) { return plus(times(x)); }

// (x - mean) inverse gamma + beta, where inverse = 1 / std
constexpr Scalar centred(Scalar x) { return x - x.channel(); }
constexpr Scalar scaled(Scalar x) { return x * x.channel(); }
constexpr Scalar norm(Scalar x) {
  const Scalar xhat_gamma = scaled(scaled(centred(x)));
  return xhat_gamma + x.channel();
}
constexpr Scalar plus_norm(Scalar x) { return x + norm(x.input()); }
// dx = (dy gamma - first - (x - mean) inverse second) inverse; first and second are the means of dy
// gamma and of dy gamma xhat over the elements that share a mean
constexpr Scalar norm_grad(Scalar dy, Scalar x) {
  const Scalar mean = x.input(), inverse = x.input(), gamma = x.input();
  const Scalar first = x.input(), second = x.input(), xhat = (x - mean) * inverse;
  return (dy * gamma - first - xhat * second) * inverse;
}
// dx = (dy - (x - mean) slope - offset) scale
constexpr Scalar batch_norm_grad(Scalar dy, Scalar x) {
  return scaled(centred(dy - scaled(centred(x))));
}

// Quotients are named because nvcc mistakes one within an expression for a quotient of Scalars.
inline constexpr double kThird = 1.0 / 3, kSixth = 1.0 / 6, kRootHalf = 1 / std::numbers::sqrt2,
                        kNormalDensity = std::numbers::inv_sqrtpi / std::numbers::sqrt2;

// Phi(x) = (1 + erf(x / sqrt(2))) / 2 and its derivative phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
constexpr Scalar normal_distribution(Scalar x) { return (erf(x * kRootHalf) + 1) * 0.5; }
constexpr Scalar normal_density(Scalar x) { return exp(x * x * -0.5) * kNormalDensity; }
// tanh(log(1 + e^x)) = w / (w + 2) with w = e^x (e^x + 2). From x = 20 on, 1 to the last bit.
constexpr Scalar tanh_of_softplus(Scalar x) {
  const Scalar e = exp(min(x, 20)), w = e * (e + 2);
  return w / (w + 2);
}
constexpr Scalar exp_below_0(Scalar x) { return exp(min(x, 0)); }
// value if x > zero, else slope value
constexpr Scalar bend(Scalar x, Scalar value, Scalar zero, Scalar slope) {
  return select(x > zero, value, value * slope);
}

// Activations: layers/ops/activation.h.
constexpr Scalar relu(Scalar x) { return max(x, 0); }
constexpr Scalar relu6(Scalar x) { return min(max(x, 0), 6); }
constexpr Scalar sigmoid(Scalar x) { return push(ScalarOp::sigmoid, x); }
constexpr Scalar hard_sigmoid(Scalar x) { return relu6(x + 3) * kSixth; }
constexpr Scalar hard_swish(Scalar x) { return x * hard_sigmoid(x); }
constexpr Scalar silu(Scalar x) { return x * sigmoid(x); }
constexpr Scalar gelu(Scalar x) { return x * normal_distribution(x); }
constexpr Scalar mish(Scalar x) { return x * tanh_of_softplus(x); }
constexpr Scalar elu(Scalar x) { return select(x > 0, x, exp_below_0(x) - 1); }  // alpha = 1

// Their gradients from the output y. relu passes dy unless y is 0, so a NaN of either stays.
constexpr Scalar relu_grad(Scalar y, Scalar dy) { return select(y, dy, 0); }
constexpr Scalar relu6_grad(Scalar y, Scalar dy) {
  const Scalar zero = y.value(0), below_6 = 6 - y;
  return select(below_6, select(y, dy, zero), zero);
}
constexpr Scalar sigmoid_grad(Scalar y, Scalar dy) { return dy * (y * (1 - y)); }
constexpr Scalar hard_sigmoid_grad(Scalar y, Scalar dy) {
  return select((y > 0) * (1 > y), dy * kSixth, 0);
}
// The other gradients are computed from the input x.
constexpr Scalar hard_swish_grad(Scalar x, Scalar dy) {
  return dy * select(3 > abs(x), x * kThird + 0.5, x > 0);
}
constexpr Scalar silu_grad(Scalar x, Scalar dy) {
  const Scalar s = sigmoid(x);
  return dy * (s * (x * (1 - s) + 1));
}
constexpr Scalar gelu_grad(Scalar x, Scalar dy) {
  return dy * (normal_distribution(x) + x * normal_density(x));
}
constexpr Scalar mish_grad(Scalar x, Scalar dy) {
  const Scalar t = tanh_of_softplus(x), s = sigmoid(x);
  return dy * (t + x * s * (1 - t * t));
}
constexpr Scalar elu_grad(Scalar x, Scalar dy) { return dy * select(x > 0, 1, exp_below_0(x)); }

}  // namespace tessera::stages
