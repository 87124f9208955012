// The scalar programs with ahead-of-time compiled code, on CPUs and GPUs: those of the networks of
// the zoo, which a test finds in their training steps, and the same chains with other stages. All
// others are interpreted.
#pragma once

#include <bit>
#include <optional>

#include "tessera/engine/dtype.h"
#include "tessera/engine/scalar_program.h"

namespace tessera {

// The canonical form of equivalent programs: instructions in the order of a depth-first visit from
// the result, one constant per use, and inputs in the order of their first use.
struct PrecompiledProgram {
  static constexpr int kLongest = 24;
  int inputs = 0, length = 0;
  uint32_t channels = 0;  // see stages::Draft; not compared
  Instruction code[kLongest] = {};
  constexpr bool operator==(const PrecompiledProgram& other) const {
    if (inputs != other.inputs || length != other.length) return false;
    for (int j = 0; j < length; ++j)
      if (!(code[j] == other.code[j])) return false;
    return true;
  }
};

// Removes roundings to 16 bits that change no bit from a program: of a value that is such a number
// already, and, if the result is rounded in the end, below ops that only choose or negate:
// round(max(round(x), 0)) is round(max(x, 0)), as rounding is monotonic. Bounds must be constants
// that a rounded 0 of either sign does not tie with otherwise than x does.
class NeededRoundings {
 public:
  // `code` has `length` instructions, which write the registers from `inputs` on; `op` rounds.
  // is_half[k]: input k has numbers of that type. rounded: the result will be rounded.
  constexpr NeededRoundings(const Instruction* given, int length, int inputs, int result,
                            ScalarOp op, const bool* is_half, bool rounded)
      : result(result), inputs_(inputs), op_(op), is_half_(is_half) {
    for (int j = 0; j < length; ++j) code[j] = given[j];
    for (int j = 0; j < length; ++j) code[j].rename([&](uint8_t r) { return skipped(r); });
    this->result = skipped(this->result);
    count_uses(this->result);
    if (rounded) this->result = absorbed(static_cast<uint8_t>(this->result));
  }

  Instruction code[kMaxScalarRegisters] = {};
  int result;

 private:
  constexpr bool is_input(int r) const { return r < inputs_; }
  constexpr Instruction& made(int r) { return code[r - inputs_]; }

  constexpr bool is_number(int r) {
    if (is_input(r)) return is_half_[r];
    const Instruction& in = made(r);
    if (in.op == op_ || in.op == ScalarOp::greater || in.op == ScalarOp::less_equal) return true;
    if (in.op == ScalarOp::constant) {
      const auto value = static_cast<float>(in.value);
      return value == (op_ == ScalarOp::bfloat16 ? static_cast<float>(bfloat16(value))
                                                 : static_cast<float>(float16(value)));
    }
    if (in.op == ScalarOp::max || in.op == ScalarOp::min) return is_number(in.a) && is_number(in.b);
    if (in.op == ScalarOp::select) return is_number(in.b) && is_number(in.c);
    return (in.op == ScalarOp::neg || in.op == ScalarOp::abs) && is_number(in.a);
  }
  constexpr uint8_t skipped(int r) {
    while (!is_input(r) &&
           (made(r).op == ScalarOp::float32 || (made(r).op == op_ && is_number(made(r).a))))
      r = made(r).a;
    return static_cast<uint8_t>(r);
  }
  constexpr void count_uses(int r) {
    if (uses_[r]++ > 0 || is_input(r)) return;
    const Instruction in = made(r);
    for (int k = 0; k < operand_count(in.op); ++k) count_uses(in.operand(k));
  }
  constexpr uint8_t absorbed(uint8_t r) {
    if (is_input(r) || uses_[r] > 1) return r;
    Instruction& in = made(r);
    if (in.op == op_) return absorbed(in.a);
    if (in.op == ScalarOp::neg || is_bound(in)) in.a = absorbed(in.a);
    if (in.op == ScalarOp::select) in.b = absorbed(in.b), in.c = absorbed(in.c);
    return r;
  }
  // max(x, c) with c not -0, or min(x, c) with c not 0
  constexpr bool is_bound(const Instruction& in) {
    if (is_input(in.b) || made(in.b).op != ScalarOp::constant) return false;
    const double c = made(in.b).value;
    const bool positive_0 = std::bit_cast<uint64_t>(c) == 0;
    return (in.op == ScalarOp::max && (c != 0 || positive_0)) || (in.op == ScalarOp::min && c != 0);
  }

  int inputs_;
  ScalarOp op_;
  const bool* is_half_;
  int uses_[2 * kMaxScalarRegisters] = {};
};

// Returns the part of `p` that computes register `result` with the roundings to `type` that are
// needed, as NeededRoundings says; nothing if that is an input other than the first, which no
// program returns as it is.
std::optional<ScalarProgram> with_needed_roundings(const ScalarProgram& p, int result, DType type,
                                                   const bool* is_half, bool rounded);

enum class Constants : uint8_t { constants, inputs };

// Converts a program to that form; constants stay constants or become inputs.
class CanonicalForm {
 public:
  // Registers below `inputs` are inputs; the code writes the others. `channels`: stages::Draft.
  constexpr CanonicalForm(const Instruction* code, int inputs, int result,
                          Constants constants = Constants::constants, uint32_t channels = 0)
      : code_(code), inputs_(inputs), constants_(constants) {
    for (int& at : place_) at = -1;
    visit(result);
    for (int j = 0; j < program.length; ++j)
      program.code[j].rename(
          [&](int at) { return at < kInstruction ? at : at - kInstruction + program.inputs; });
    for (int k = 0; k < program.inputs; ++k)
      if (source[k] < inputs && (channels >> source[k] & 1) != 0)
        program.channels |= uint32_t{1} << k;
  }

  PrecompiledProgram program;
  uint8_t source[kMaxScalarRegisters] = {};  // the original register of each input
  bool fits = true;                          // false if longer than any precompiled program

 private:
  static constexpr int kInstruction = 64;  // added to instructions until the inputs are counted

  constexpr uint8_t visit(int r) {
    int& at = place_[r];
    if (at >= 0) return static_cast<uint8_t>(at);
    Instruction in = r < inputs_ ? Instruction{} : code_[r - inputs_];
    const int operands = operand_count(in.op);
    if (r < inputs_ || (operands == 0 && constants_ == Constants::inputs)) {
      if (program.inputs == kMaxScalarRegisters) return fits = false, uint8_t{0};
      source[program.inputs] = static_cast<uint8_t>(r);
      const int input = program.inputs++;
      if (r < inputs_) at = input;
      return static_cast<uint8_t>(input);
    }
    in.rename_operands([&](uint8_t operand) { return visit(operand); });
    if (program.length == PrecompiledProgram::kLongest) return fits = false, uint8_t{0};
    program.code[program.length] = in;
    const int made = kInstruction + program.length++;
    if (operands > 0) at = made;
    return static_cast<uint8_t>(made);
  }

  const Instruction* code_;
  int inputs_;
  Constants constants_;
  int place_[2 * kMaxScalarRegisters] = {};  // the new register of each visited one
};

struct PrecompiledPrograms {
  using Scalar = stages::Scalar;
  using Gradient = Scalar (*)(Scalar, Scalar);
  struct Activation {
    Scalar (*forward)(Scalar);
    Gradient gradient;
    bool of_output;  // else a function of its input
  };

  static constexpr int kMax = 240;
  // The common programs are first, those of networks in bfloat16 last, of which the last round
  // values between stages.
  int count = 0, common = 0, half = 0, rounding = 0;
  PrecompiledProgram list[kMax];
  bool rounds = false;  // whether add() rounds after each stage

  // Returns whether there is compiled code for GPUs.
  constexpr bool is_for_gpus(int program) const { return program < common || program >= rounding; }

  // Returns whether there is compiled code that reads and writes bfloat16.
  constexpr bool is_for_bfloat16(int program) const { return program < common || program >= half; }

  constexpr const PrecompiledProgram* begin() const { return list; }
  constexpr const PrecompiledProgram* end() const { return list + count; }

  // A value that separate ops would store.
  constexpr Scalar stored(Scalar x) const {
    return rounds ? stages::push(ScalarOp::bfloat16, x) : x;
  }

  // Adds the chain of `stages`, applied to one input; stages may add inputs.
  template <class... S>
  constexpr void add(S... stages) {
    stages::Draft draft{.inputs = 1};
    Scalar y(&draft, 0);
    ((y = stored(stages(y))), ...);
    if (!rounds)
      return add(CanonicalForm(draft.code, kMaxScalarRegisters, y.at, Constants::constants,
                               draft.channels));
    bool is_half[kMaxScalarRegisters];
    for (bool& half : is_half) half = true;
    const NeededRoundings needed(draft.code, draft.length, kMaxScalarRegisters, y.at,
                                 ScalarOp::bfloat16, is_half, true);
    add(CanonicalForm(needed.code, kMaxScalarRegisters, needed.result, Constants::constants,
                      draft.channels));
  }
  constexpr void add(const CanonicalForm& form) {
    if (!form.fits) throw "a precompiled program is too long";
    for (const PrecompiledProgram& known : *this)
      if (rounds && known == form.program) return;
    list[count++] = form.program;
  }

  constexpr auto of(Gradient gradient) const {
    return [=](Scalar y) { return gradient(y, y.input()); };
  }
  // x + norm(another input)
  constexpr auto plus_norm() const {
    return [this](Scalar x) { return x + stored(stages::norm(x.input())); };
  }
  // Adds `gradient` of the chain `before`, which is recomputed; dy is an input or a sum of two.
  template <class... S>
  constexpr void add_gradients(Gradient gradient, S... before) {
    add(before..., of(gradient));
    add(before..., [=, this](Scalar y) { return gradient(y, stored(stages::plus(y.input()))); });
  }
  template <class... S>
  constexpr void add_gradients(const Activation& one, S... before) {
    one.of_output ? add_gradients(one.gradient, before..., one.forward)
                  : add_gradients(one.gradient, before...);
  }

  // Adds programs that follow biases and norms.
  constexpr void add_common(const Activation& one) {
    add(one.forward);
    add(stages::plus, one.forward);
    add(stages::norm, one.forward);
    add_gradients(one.gradient);
    add_gradients(one, stages::norm);
  }
  // Adds programs that follow the sum of a norm and another input.
  constexpr void add_after_sums(const Activation& one) {
    add(stages::norm, stages::plus, one.forward);
    add(stages::norm, stages::onto, one.forward);
    add_gradients(one, stages::norm, stages::plus);
  }
  // Adds programs of frozen networks in bfloat16, whose batch norms are a factor and a bias.
  constexpr void add_frozen() {
    using namespace stages;
    add(affine, relu);
    add(plus, affine, relu);
    add(affine, plus);
    add(affine, plus, relu);
    add(
        affine, [this](Scalar x) { return x + stored(affine(x.input())); }, relu);
    add(plus, sigmoid);
  }
  // Adds programs that precede sums and norms.
  constexpr void add_before(const Activation& one) {
    add(one.forward, plus_norm());
    if (one.of_output) add_gradients(one);
    add([=, this](Scalar y) {
      return one.gradient(y, stored(batch_norm_grad(y.input(), one.of_output ? y : y.input())));
    });
  }
  // Adds sums and norms, and all with ReLU.
  constexpr void add_sums_and_relu() {
    using namespace stages;
    constexpr Activation kRelu = {relu, relu_grad, true};
    add(plus);   // bias
    add(times);  // scale_channels
    add(minus);
    add(plus, plus);
    add(times, plus);  // layer_scale
    add(norm);
    add(norm, plus);
    add(norm, times, plus);  // stochastic_depth
    add(of(stages::batch_norm_grad));
    add(of(stages::batch_norm_grad), onto);
    add(of(norm_grad));
    add(norm, plus_norm(), relu);
    add_gradients(relu_grad, norm, plus_norm(), relu);
    add_common(kRelu);
    add_after_sums(kRelu);
  }
};

constexpr PrecompiledPrograms all_precompiled_programs() {
  using namespace stages;
  using Activation = PrecompiledPrograms::Activation;
  PrecompiledPrograms all;
  constexpr Activation kRelu = {relu, relu_grad, true};
  constexpr Activation kOthers[] = {{relu6, relu6_grad, true}, {hard_swish, hard_swish_grad, false},
                                    {silu, silu_grad, false},  {gelu, gelu_grad, false},
                                    {elu, elu_grad, false},    {mish, mish_grad, false}};
  constexpr Activation kGates[] = {{sigmoid, sigmoid_grad, true},
                                   {hard_sigmoid, hard_sigmoid_grad, true}};
  all.add_sums_and_relu();
  for (const Activation& gate : kGates) {
    all.add(gate.forward);
    all.add(plus, gate.forward);
    all.add(all.of(gate.gradient));
  }
  for (const Activation& one : kOthers) all.add_common(one);
  all.common = all.count;
  all.add_before(kRelu);
  for (const Activation& one : kOthers) all.add_after_sums(one), all.add_before(one);
  // leaky_relu: the slope and the 0 at which it changes are inputs, so any slope matches.
  constexpr Activation kLeaky = {
      [](Scalar x) { return bend(x, x, x.input(), x.input()); },
      [](Scalar y, Scalar dy) { return bend(y, dy, y.input(), y.input()); }, true};
  all.add_common(kLeaky);
  all.add_after_sums(kLeaky);
  all.add_before(kLeaky);
  all.add([](Scalar x) { return select(x > 0, 0, x * x.input()); });  // gradient of prelu's slope
  all.rounds = true;
  all.half = all.count;
  all.add_frozen();
  for (const Activation& one : kOthers) all.add(affine, one.forward);
  all.rounding = all.count;
  all.add_sums_and_relu();
  all.add_before(kRelu);
  for (int k = 0; k < 4; ++k) all.add_common(kOthers[k]);
  return all;
}

inline constexpr PrecompiledPrograms kPrecompiledPrograms = all_precompiled_programs();

// The precompiled program that is equivalent to a program, up to the order of inputs and
// instructions.
struct PrecompiledMatch {
  int program = -1;                          // -1: none
  int count = 0;                             // inputs of the precompiled program
  uint8_t inputs[kMaxScalarRegisters] = {};  // registers of the program: inputs or constants
};
PrecompiledMatch precompiled_program(const ScalarProgram& program,
                                     Constants constants = Constants::constants);

}  // namespace tessera
