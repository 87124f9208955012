#include "tessera/layers/optimizers/lamb.h"

#include "tessera/engine/pointwise.h"
#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/optimizers/update_programs.h"

namespace tessera {

Lamb::Lamb(Store& store, Tensors parameters, const LambParams& params)
    : Optimizer("lamb", std::move(parameters)), params_(params) {
  check_share("lamb", "beta1", params.beta1);
  check_share("lamb", "beta2", params.beta2);
  check_positive("lamb", "epsilon", params.epsilon);
  check_decay("lamb", params);
  m_ = declare_states(store, "m");
  v_ = declare_states(store, "v");
  step_ = declare_step(store);
}

void Lamb::update(std::span<const Tensor> gradients, const Tensor& lr) {
  StepScalars numbers(lr, increment_step(step_, lr));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &p = parameters_[i], &g = gradients[i];
    const ParameterScale own = scale_of(params_, p.spec(), scales_[i]);
    const Tensor gate = update_gate(lr, g);
    const auto [m, v] =
        move_moments("lamb_update", gate, g, m_[i], v_[i], params_.beta1, params_.beta2);
    const Tensor first = numbers.correction(params_.beta1, p.dtype());
    const Tensor second = numbers.correction(params_.beta2, p.dtype());
    ScalarBuilder b(5);
    const auto root = [&](int x) { return b.push(ScalarOp::sqrt, x); };
    const int below = b.add(b.div(root(b.in(1)), root(b.in(4))), b.value(params_.epsilon));
    int u = b.div(b.div(b.in(0), b.in(3)), below);
    if (own.decay != 0) u = b.add(u, b.mul(b.value(own.decay), b.in(2)));
    const Tensor way = pointwise("lamb_step", b.build(u), {m, v, p, first, second});
    const Tensor own_lr = numbers.lr(p.dtype());
    UpdateProgram to(p, gate,
                     own.decay == 0
                         ? Tensors{way, own_lr}
                         : Tensors{way, own_lr, trust_ratio(norm_of(p), norm_of(way), 1, 0, 0)});
    int rate = to.scale(to.extra(1), own.lr);
    if (own.decay != 0) rate = to.mul(rate, to.extra(2));
    to.apply("lamb_update", to.sub(to.previous(), to.mul(rate, to.extra(0))));
  }
}

}  // namespace tessera
