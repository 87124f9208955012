#include "tessera/layers/optimizers/lion.h"

#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/optimizers/update_programs.h"

namespace tessera {

Lion::Lion(Store& store, Tensors parameters, const LionParams& params)
    : Optimizer("lion", std::move(parameters)), params_(params) {
  check_share("lion", "beta1", params.beta1);
  check_share("lion", "beta2", params.beta2);
  check_decay("lion", params);
  m_ = declare_states(store, "m");
}

void Lion::update(std::span<const Tensor> gradients, const Tensor& lr) {
  StepScalars numbers(lr);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &p = parameters_[i], &g = gradients[i];
    const ParameterScale own = scale_of(params_, p.spec(), scales_[i]);
    const Tensor gate = update_gate(lr, g);
    UpdateProgram b(p, gate, {g, m_[i], numbers.lr(p.dtype())});
    const int zero = b.value(0), rate = b.scale(b.extra(2), own.lr);
    const int way = b.lerp(b.extra(1), b.extra(0), 1 - params_.beta1);
    const int sign =
        b.sub(b.push(ScalarOp::greater, way, zero), b.push(ScalarOp::greater, zero, way));
    const int kept = b.decayed(rate, own.decay);
    b.apply("lion_update", b.sub(kept, b.mul(rate, sign)));
    UpdateProgram mean(m_[i], gate, {g});
    mean.apply("lion_update", mean.lerp(mean.previous(), mean.extra(0), 1 - params_.beta2));
  }
}

}  // namespace tessera
