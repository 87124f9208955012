// What an op costs unless it says otherwise.
#include "tessera/engine/op.h"

namespace tessera {

Cost Op::cost_with(std::span<const TensorSpec> in, int64_t flops) const {
  Cost cost{.flops = flops};
  const Specs out = infer(in);
  bool moves = false;  // a view reads nothing either
  for (size_t i = 0; i < out.size(); ++i) {
    if (views(static_cast<int>(i)) >= 0) continue;
    cost.bytes_written += static_cast<int64_t>(out[i].bytes());
    moves = true;
  }
  if (!moves) return {};
  for (const TensorSpec& x : in) cost.bytes_read += static_cast<int64_t>(x.bytes());
  return cost;
}

Cost Op::cost(std::span<const TensorSpec> in) const {
  const std::optional<ScalarProgram> program = pointwise();
  return cost_with(in, program ? program->operations() * infer(in)[0].shape.elements() : 0);
}

}  // namespace tessera
