// The functions of scalar_program.h that know dtypes and evaluate instructions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "tessera/engine/dtype.h"
#include "tessera/engine/pointwise_run.h"
#include "tessera/engine/scalar_program.h"

namespace tessera {
namespace {

template <class T>
bool same_bits(T x, T y) {
  return std::memcmp(&x, &y, sizeof(T)) == 0;
}

// Evaluates an instruction as the interpreter does; nullopt if the bits depend on the platform's
// math library.
template <class T>
std::optional<T> evaluate(ScalarOp op, T a, T b, T c) {
  // sqrt alone is exact everywhere; a rounding must end its program.
  const bool is_function = op >= ScalarOp::exp && op != ScalarOp::sqrt;
  if (op == ScalarOp::constant || op == ScalarOp::pow || is_function) return std::nullopt;
  constexpr Broadcast kWhole[3];
  const ScalarProgram program{3, {{op, 0, 1, 2, 0}}};
  const PointwisePlan plan(program, dtype_of<T>, kWhole, 1);
  const void* const in[] = {&a, &b, &c};
  T result = 0;
  PointwiseRun(plan, in, &result).apply(0, 1);
  return result;
}

template <class T>
class Simplifier {
 public:
  explicit Simplifier(const ScalarProgram& program) : made_{program.inputs, {}} {
    std::vector<int> map;
    for (int k = 0; k < program.inputs; ++k) map.push_back(k);
    for (Instruction in : program.code) {
      if (in.op == ScalarOp::float32 && std::ssize(map) < program.result()) {
        map.push_back(map[in.a]);
        changed_ = true;
        continue;
      }
      in.rename_operands([&](uint8_t r) { return map[r]; });
      map.push_back(register_of(in));
    }
    result_ = map[static_cast<size_t>(program.result())];
  }

  SimplifiedProgram result(const ScalarProgram& original) const {
    if (result_ < made_.inputs)
      return {original, !original.code.empty(), made_.inputs > 0 ? result_ : -1};
    ScalarProgram live = live_part(made_, result_);
    const bool changed = changed_ || live.code.size() != original.code.size();
    if (!changed || live.registers() > kMaxScalarRegisters) return {original, false, -1};
    return {std::move(live), true, -1};
  }

 private:
  // Returns the register with the result of the instruction; appends one if there is none.
  int register_of(const Instruction& in) {
    if (in.op == ScalarOp::constant) return push(in);
    if (const std::optional<T> value = folded(in))
      return changed_ = true, push({ScalarOp::constant, 0, 0, 0, static_cast<double>(*value)});
    int there = present(in);
    if (there < 0) there = computed_before(in);
    if (there >= 0) return changed_ = true, there;
    if (in.op == ScalarOp::div && divides_exactly(in.b)) {
      changed_ = true;
      const T factor = 1 / *constant(in.b);
      const int with = push({ScalarOp::constant, 0, 0, 0, static_cast<double>(factor)});
      return push({ScalarOp::mul, in.a, static_cast<uint8_t>(with), 0, 0});
    }
    return push(without_looser_bound(in));
  }

  // NaN results are not folded: their sign depends on the CPU that runs the program.
  std::optional<T> folded(const Instruction& in) const {
    const int operands = operand_count(in.op);
    const auto a = constant(in.a), b = operands > 1 ? constant(in.b) : a,
               c = operands > 2 ? constant(in.c) : a;
    if (!a || !b || !c) return std::nullopt;
    const auto value = evaluate(in.op, *a, *b, *c);
    return value && !std::isnan(*value) ? value : std::nullopt;
  }

  // Returns the operand, or an operand of its instruction, that equals the result; or -1.
  int present(const Instruction& in) const {
    switch (in.op) {
      case ScalarOp::add:  // -0 + -0 is -0, but -0 + 0 is 0: only -0 is neutral
        return is(in.b, T(-0.0)) ? in.a : is(in.a, T(-0.0)) ? in.b : -1;
      case ScalarOp::sub:  // -0 - 0 is -0, but -0 - -0 is 0
        return is(in.b, T(0)) ? in.a : -1;
      case ScalarOp::mul:  // times 0 is not 0 for NaN, infinities, negatives
        return is(in.b, T(1)) ? in.a : is(in.a, T(1)) ? in.b : -1;
      case ScalarOp::div:
        return is(in.b, T(1)) ? in.a : -1;
      case ScalarOp::max:
      case ScalarOp::min:
        return same(in.a, in.b) || within_bound(in) ? in.a : -1;
      case ScalarOp::select:
        if (const auto chosen = constant(in.a)) return *chosen != T(0) ? in.b : in.c;
        return same(in.b, in.c) ? in.b : -1;
      case ScalarOp::neg:  // flips one bit, also of NaN
        return made_by(in.a, ScalarOp::neg) ? instruction(in.a).a : -1;
      case ScalarOp::abs:  // keeps -0, so abs(-x) is not abs(x)
        return made_by(in.a, ScalarOp::abs) ? in.a : -1;
      default:
        return -1;
    }
  }

  // a + b and b + a are not merged: of two NaNs the first gives the bits.
  int computed_before(const Instruction& in) const {
    for (int r = made_.inputs; r < made_.registers(); ++r) {
      const Instruction& other = instruction(r);
      const int operands = operand_count(in.op);
      if (other.op == in.op && same(in.a, other.a) && (operands < 2 || same(in.b, other.b)) &&
          (operands < 3 || same(in.c, other.c)))
        return r;
    }
    return -1;
  }

  // Returns true for max(max(x, c), d) with d < c or bit-equal bounds: nothing to do. NaN passes
  // both.
  bool within_bound(const Instruction& in) const {
    const auto bound = constant(in.b), before = bound_of(in.a, in.op);
    if (!bound || !before) return false;
    return same_bits(*bound, *before) ||
           (in.op == ScalarOp::max ? *bound < *before : *bound > *before);
  }

  // Rewrites max(max(x, c), d) with c <= d as max(x, d). If both are zeros, both give d.
  Instruction without_looser_bound(Instruction in) {
    if (in.op != ScalarOp::max && in.op != ScalarOp::min) return in;
    const auto bound = constant(in.b), before = bound_of(in.a, in.op);
    if (!bound || !before || !(in.op == ScalarOp::max ? *before <= *bound : *before >= *bound))
      return in;
    changed_ = true;
    in.a = instruction(in.a).a;
    return in;
  }

  std::optional<T> bound_of(int r, ScalarOp op) const {
    return made_by(r, op) ? constant(instruction(r).b) : std::nullopt;
  }

  // Returns true if x / c has the bits of x * (1 / c): powers of two, c and 1 / c normal.
  bool divides_exactly(int r) const {
    const auto c = constant(r);
    int exponent = 0;
    return c && std::isnormal(*c) && std::isnormal(1 / *c) &&
           std::abs(std::frexp(*c, &exponent)) == T(0.5);
  }

  const Instruction& instruction(int r) const {
    return made_.code[static_cast<size_t>(r - made_.inputs)];
  }
  bool made_by(int r, ScalarOp op) const { return r >= made_.inputs && instruction(r).op == op; }
  std::optional<T> constant(int r) const {
    if (!made_by(r, ScalarOp::constant)) return std::nullopt;
    return static_cast<T>(instruction(r).value);
  }
  bool is(int r, T value) const {
    const auto c = constant(r);
    return c && same_bits(*c, value);
  }
  bool same(int r, int s) const {
    const auto value = constant(s);
    return r == s || (value && is(r, *value));
  }
  int push(const Instruction& in) {
    made_.code.push_back(in);
    return made_.registers() - 1;
  }

  ScalarProgram made_;
  int result_ = 0;
  bool changed_ = false;
};

}  // namespace

DType result_type(const ScalarProgram& p, DType type) {
  const ScalarOp last = p.code.empty() ? ScalarOp::constant : p.code.back().op;
  return last == ScalarOp::bfloat16 ? DType::bf16 : last == ScalarOp::float16 ? DType::f16 : type;
}

ScalarProgram with_result(ScalarProgram p, DType type) {
  if (type == DType::f64 || result_type(p, DType::f32) == type) return p;
  const ScalarOp op = type == DType::bf16  ? ScalarOp::bfloat16
                      : type == DType::f16 ? ScalarOp::float16
                                           : ScalarOp::float32;
  if (!p.code.empty() && p.code.back().op == ScalarOp::float32)
    p.code.back().op = op;
  else
    p.code.push_back({op, static_cast<uint8_t>(p.result()), 0, 0, 0});
  return p;
}

SimplifiedProgram simplified(const ScalarProgram& program, DType dtype) {
  if (compute_type(dtype) == DType::f32) return Simplifier<float>(program).result(program);
  return Simplifier<double>(program).result(program);
}

}  // namespace tessera
