#include "tessera/engine/pointwise_known.h"

#include <bit>

namespace tessera {
namespace {

constexpr uint8_t kUnset = 255;

// Whether register `from` of the program stands where `to` of the known one does; an input that has
// none takes it.
bool same_register(const ScalarProgram& program, const KnownProgram& known, int from, int to,
                   KnownMatch& match) {
  if (to >= known.inputs) return from - program.inputs == to - known.inputs;
  if (match.inputs[to] == kUnset && from < program.inputs)
    match.inputs[to] = static_cast<uint8_t>(from);
  return match.inputs[to] == from;
}

bool same_program(const ScalarProgram& program, const KnownProgram& known, KnownMatch& match) {
  if (program.inputs != known.inputs || static_cast<int>(program.code.size()) != known.length)
    return false;
  for (uint8_t& input : match.inputs) input = kUnset;
  for (int j = 0; j < known.length; ++j) {
    const Instruction &x = program.code[static_cast<size_t>(j)], &y = known.code[j];
    const int operands = operand_count(x.op);  // those that an instruction lacks may be anything
    if (x.op != y.op || std::bit_cast<uint64_t>(x.value) != std::bit_cast<uint64_t>(y.value))
      return false;
    if (operands > 0 && !same_register(program, known, x.a, y.a, match)) return false;
    if (operands > 1 && !same_register(program, known, x.b, y.b, match)) return false;
    if (operands > 2 && !same_register(program, known, x.c, y.c, match)) return false;
  }
  return true;
}

}  // namespace

KnownMatch known_program(const ScalarProgram& program) {
  for (int i = 0; i < kKnownCount; ++i) {
    KnownMatch match{.program = i, .inputs = {}};
    if (same_program(program, kKnownPrograms[i], match)) return match;
  }
  return {};
}

}  // namespace tessera
