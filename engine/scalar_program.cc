#include "tessera/engine/scalar_program.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Appends `from` to `to`; register r of `from` becomes map[r]. Extends the map.
void append(ScalarProgram& to, const ScalarProgram& from, std::vector<int>& map) {
  for (Instruction instruction : from.code) {
    instruction.rename([&](uint8_t r) { return map[r]; });
    map.push_back(to.registers());
    to.code.push_back(instruction);
  }
}

}  // namespace

const char* name_of(ScalarOp op) {
  constexpr const char* kNames[] = {
      "constant", "add",        "sub",    "mul", "div",     "max",     "min",      "pow",
      "greater",  "less_equal", "select", "neg", "abs",     "exp",     "log",      "sqrt",
      "tanh",     "sin",        "cos",    "erf", "sigmoid", "float32", "bfloat16", "float16"};
  return kNames[static_cast<size_t>(op)];
}

int ScalarProgram::operations() const {
  return static_cast<int>(
      std::ranges::count_if(code, [](const Instruction& i) { return i.op != ScalarOp::constant; }));
}

std::string ScalarProgram::text() const {
  std::string text;
  for (size_t i = 0; i < code.size(); ++i) {
    const Instruction& in = code[i];
    text += fmt::format("{}r{} = {}", i == 0 ? "" : "; ", inputs + i, name_of(in.op));
    if (in.op == ScalarOp::constant) text += fmt::format(" {}", in.value);
    for (int k = 0; k < operand_count(in.op); ++k) text += fmt::format(" r{}", in.operand(k));
  }
  return text;
}

ScalarBuilder::Register ScalarBuilder::push(const Instruction& instruction) {
  if (program_.registers() >= kMaxScalarRegisters)
    throw ShapeError(
        fmt::format("scalar program: at most {} registers are supported", kMaxScalarRegisters));
  program_.code.push_back(instruction);
  return static_cast<Register>(program_.registers() - 1);
}

ScalarProgram ScalarBuilder::build(int result) const {
  if (result < program_.inputs && (result != 0 || !program_.code.empty()))
    return rename_inputs({1, {}}, {result}, program_.inputs);
  return live_part(program_, result);
}

ScalarProgram live_part(const ScalarProgram& p, int result) {
  std::vector<bool> live(p.registers(), false);
  live[result] = true;
  for (int r = p.registers() - 1; r >= p.inputs; --r) {
    if (!live[r]) continue;
    const Instruction& in = p.code[r - p.inputs];
    for (int k = 0; k < operand_count(in.op); ++k) live[in.operand(k)] = true;
  }
  ScalarProgram packed{p.inputs, {}};
  std::vector<int> map(p.registers(), 0);
  for (int i = 0; i < p.inputs; ++i) map[i] = i;
  for (int r = p.inputs; r <= result; ++r) {
    if (!live[r]) continue;
    Instruction in = p.code[r - p.inputs];
    in.rename([&](uint8_t register_of) { return map[register_of]; });
    map[r] = packed.registers();
    packed.code.push_back(in);
  }
  return packed;
}

ScalarProgram compose(const ScalarProgram& f, const ScalarProgram& g, int fused_input) {
  ScalarProgram whole{f.inputs + g.inputs - 1, {}};
  std::vector<int> map;
  for (int i = 0; i < f.inputs; ++i) map.push_back(i);
  append(whole, f, map);
  int f_result = map[f.result()];
  map.clear();
  for (int i = 0, next = f.inputs; i < g.inputs; ++i)
    map.push_back(i == fused_input ? f_result : next++);
  append(whole, g, map);
  return whole;
}

ScalarProgram rename_inputs(const ScalarProgram& p, const std::vector<int>& map, int inputs) {
  ScalarProgram renamed{inputs, {}};
  std::vector<int> registers = map;
  append(renamed, p, registers);
  if (p.code.empty() && map[0] != 0) {
    auto r = static_cast<uint8_t>(map[0]);
    renamed.code.push_back({ScalarOp::max, r, r, 0, 0});
  }
  return renamed;
}

}  // namespace tessera
