// The scalar programs with ahead-of-time compiled code, on CPUs and GPUs: those of the networks of
// the zoo, which a test finds in their training steps, and the same chains with other stages. All
// others are interpreted.
#pragma once

#include "tessera/engine/scalar_stages.h"

namespace tessera {

// The canonical form of equivalent programs: instructions in the order of a depth-first visit from
// the result, one constant per use, and inputs in the order of their first use.
struct PrecompiledProgram {
  static constexpr int kLongest = 24;
  int inputs = 0, length = 0;
  Instruction code[kLongest] = {};
  constexpr bool operator==(const PrecompiledProgram&) const = default;
};

enum class Constants : uint8_t { constants, inputs };

// Converts a program to that form; constants stay constants or become inputs.
class CanonicalForm {
 public:
  // Registers below `inputs` are inputs; the code writes the others.
  constexpr CanonicalForm(const Instruction* code, int inputs, int result,
                          Constants constants = Constants::constants)
      : code_(code), inputs_(inputs), constants_(constants) {
    for (int& at : place_) at = -1;
    visit(result);
    for (int j = 0; j < program.length; ++j) {
      Instruction& in = program.code[j];
      in.a = numbered(in.a), in.b = numbered(in.b), in.c = numbered(in.c);
    }
  }

  PrecompiledProgram program;
  uint8_t source[kMaxScalarRegisters] = {};  // the original register of each input
  bool fits = true;                          // false if longer than any precompiled program

 private:
  static constexpr int kInstruction = 64;  // added to instructions until the inputs are counted

  constexpr uint8_t numbered(int at) const {
    return static_cast<uint8_t>(at < kInstruction ? at : at - kInstruction + program.inputs);
  }

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
    in.a = operands > 0 ? visit(in.a) : uint8_t{0};
    in.b = operands > 1 ? visit(in.b) : uint8_t{0};
    in.c = operands > 2 ? visit(in.c) : uint8_t{0};
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

  static constexpr int kMax = 144;
  // The common programs are first; only they have compiled code for GPUs.
  int count = 0, common = 0;
  PrecompiledProgram list[kMax];

  constexpr const PrecompiledProgram* begin() const { return list; }
  constexpr const PrecompiledProgram* end() const { return list + count; }

  // Adds the chain of `stages`, applied to one input; stages may add inputs.
  template <class... S>
  constexpr void add(S... stages) {
    stages::Draft draft{.inputs = 1};
    Scalar y(&draft, 0);
    ((y = stages(y)), ...);
    const CanonicalForm form(draft.code, kMaxScalarRegisters, y.at);
    if (!form.fits) throw "a precompiled program is too long";
    list[count++] = form.program;
  }

  static constexpr auto of(Gradient gradient) {
    return [=](Scalar y) { return gradient(y, y.input()); };
  }
  // Adds `gradient` of the chain `before`, which is recomputed; dy is an input or a sum of two.
  template <class... S>
  constexpr void add_gradients(Gradient gradient, S... before) {
    add(before..., of(gradient));
    add(before..., [=](Scalar y) { return gradient(y, plus(y.input())); });
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
  // Adds programs that precede sums and norms.
  constexpr void add_before(const Activation& one) {
    add(one.forward, stages::plus_norm);
    if (one.of_output) add_gradients(one);
    add([=](Scalar y) {
      return one.gradient(y, batch_norm_grad(y.input(), one.of_output ? y : y.input()));
    });
  }
};

constexpr PrecompiledPrograms all_precompiled_programs() {
  using namespace stages;
  using Activation = PrecompiledPrograms::Activation;
  PrecompiledPrograms all;
  all.add(plus);   // bias
  all.add(times);  // scale_channels
  all.add(minus);
  all.add(plus, plus);
  all.add(times, plus);  // layer_scale
  all.add(norm);
  all.add(norm, plus);
  all.add(norm, times, plus);  // stochastic_depth
  all.add(all.of(batch_norm_grad));
  all.add(all.of(batch_norm_grad), onto);
  all.add(all.of(norm_grad));
  all.add(norm, plus_norm, relu);
  all.add_gradients(relu_grad, norm, plus_norm, relu);
  constexpr Activation kRelu = {relu, relu_grad, true};
  constexpr Activation kOthers[] = {{relu6, relu6_grad, true}, {hard_swish, hard_swish_grad, false},
                                    {silu, silu_grad, false},  {gelu, gelu_grad, false},
                                    {elu, elu_grad, false},    {mish, mish_grad, false}};
  constexpr Activation kGates[] = {{sigmoid, sigmoid_grad, true},
                                   {hard_sigmoid, hard_sigmoid_grad, true}};
  for (const Activation& gate : kGates) {
    all.add(gate.forward);
    all.add(plus, gate.forward);
    all.add(all.of(gate.gradient));
  }
  all.add_common(kRelu);
  all.add_after_sums(kRelu);
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
