#include "tessera/layers/shared/epilogue.h"

namespace tessera {

EpilogueRun::EpilogueRun(const ScalarProgram& program, Buffers more, const Buffer& result)
    : program_(program), result_(result) {
  for (int k = 0; k < program.inputs; ++k) {
    const Buffer& from = k == 0 ? result : more[static_cast<size_t>(k - 1)];
    inputs_[k] = from.data;
    broadcast_of(from.spec.shape, result.spec.shape, &broadcasts_[k]);
  }
}

void EpilogueRun::apply(int64_t first, int64_t count) const {
  char* out = result_.as<char>() + first * static_cast<int64_t>(size_of(result_.spec.dtype));
  run_scalar_program(program_, result_.spec.dtype, inputs_, broadcasts_, result_.elements(), first,
                     count, out);
}

std::optional<ScalarProgram> join_epilogue(const ScalarProgram& own, const ScalarProgram& p,
                                           int fused_input, const TensorSpec& result,
                                           std::span<const TensorSpec> p_in) {
  if (p_in[static_cast<size_t>(fused_input)].shape != result.shape) return std::nullopt;
  for (const TensorSpec& spec : p_in) {
    Broadcast broadcast;
    if (spec.dtype != result.dtype || !broadcast_of(spec.shape, result.shape, &broadcast))
      return std::nullopt;
  }
  ScalarProgram whole = compose(own, p, fused_input);
  if (whole.registers() > kMaxScalarRegisters) return std::nullopt;
  return whole;
}

std::vector<int> join_inputs(size_t own, const ScalarProgram& p, int fused_input) {
  std::vector<int> inputs;
  for (int i = 0; i < static_cast<int>(own); ++i) inputs.push_back(i);
  for (int i = 0; i < p.inputs; ++i)
    if (i != fused_input) inputs.push_back(-1 - i);
  return inputs;
}

}  // namespace tessera
