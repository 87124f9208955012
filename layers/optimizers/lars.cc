#include "tessera/layers/optimizers/lars.h"

#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/optimizers/update_programs.h"

namespace tessera {
namespace {

// Returns g' from the inputs g and p and, if there is a decay, r.
int grad_of(UpdateProgram& b, double decay, int g, int p, int ratio) {
  return decay == 0 ? g : b.mul(b.with_decay(g, p, decay), ratio);
}

}  // namespace

Lars::Lars(Store& store, Tensors parameters, const LarsParams& params)
    : Optimizer("lars", std::move(parameters)), params_(params) {
  check_not_negative("lars", "momentum", params.momentum);
  check_positive("lars", "trust_coefficient", params.trust_coefficient);
  check_positive("lars", "epsilon", params.epsilon);
  check_decay("lars", params);
  momentum_ = declare_states(store, "momentum");
}

void Lars::update(std::span<const Tensor> gradients, const Tensor& lr) {
  StepScalars numbers(lr);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &p = parameters_[i], &g = gradients[i];
    const ParameterScale own = scale_of(params_, p.spec(), scales_[i]);
    const Tensor gate = update_gate(lr, g);
    const Tensor ratio = own.decay == 0
                             ? gate  // not read
                             : trust_ratio(norm_of(p), norm_of(g), params_.trust_coefficient,
                                           own.decay, params_.epsilon);
    UpdateProgram b(momentum_[i], gate, {g, p, ratio});
    const int grad = grad_of(b, own.decay, b.extra(0), b.extra(1), b.extra(2));
    const Tensor buffer =
        b.apply("lars_update", b.add(b.mul(b.value(params_.momentum), b.previous()), grad));
    UpdateProgram to(p, gate, {buffer, numbers.lr(p.dtype()), g, ratio});
    int way = to.extra(0);
    if (params_.nesterov)
      way = to.add(grad_of(to, own.decay, to.extra(2), to.previous(), to.extra(3)),
                   to.mul(to.value(params_.momentum), way));
    to.apply("lars_update", to.sub(to.previous(), to.mul(to.scale(to.extra(1), own.lr), way)));
  }
}

}  // namespace tessera
