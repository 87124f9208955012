#include "tessera/engine/pointwise_known.h"

#include <algorithm>

namespace tessera {

KnownMatch known_program(const ScalarProgram& program, Constants constants) {
  if (program.code.empty() || program.registers() > kMaxScalarRegisters) return {};
  const KnownForm form(program.code.data(), program.inputs, program.result(), constants);
  const auto* found = std::find(kKnownPrograms.begin(), kKnownPrograms.end(), form.program);
  if (!form.fits || found == kKnownPrograms.end()) return {};
  KnownMatch match{.program = static_cast<int>(found - kKnownPrograms.begin()),
                   .count = form.program.inputs};
  std::copy_n(form.source, match.count, match.inputs);
  return match;
}

}  // namespace tessera
