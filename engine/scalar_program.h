// ScalarProgram: a function of scalars as a list of instructions. The pointwise op runs it on every
// element, fusion joins programs, and kernels apply it to their output while that is in the cache.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
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
