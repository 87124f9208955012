#include "tessera/layers/shared/epilogue.h"

#include <algorithm>

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
