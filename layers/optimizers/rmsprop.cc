#include "tessera/layers/optimizers/rmsprop.h"

#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/optimizers/update_programs.h"

namespace tessera {
namespace {

constexpr std::string_view kName = "rmsprop_update";

// Returns grad / root(v).
int step_of(UpdateProgram& b, const RmspropParams& s, int grad, int v) {
  const int eps = b.value(s.epsilon);
  return b.div(grad, s.eps_in_root ? b.sqrt(b.add(v, eps)) : b.add(b.sqrt(v), eps));
}

Tensor next_square(const RmspropParams& s, double decay, const Tensor& v, const Tensor& gate,
                   const Tensor& g, const Tensor& p) {
  UpdateProgram b(v, gate, {g, p});
  const int grad = b.with_decay(b.extra(0), b.extra(1), decay), square = b.mul(grad, grad);
  if (s.eps_in_root) return b.apply(kName, b.lerp(b.previous(), square, 1 - s.alpha));
  const int kept = b.mul(b.value(s.alpha), b.previous());
  return b.apply(kName, b.add(kept, b.mul(b.value(1 - s.alpha), square)));
}

}  // namespace

Rmsprop::Rmsprop(Store& store, Tensors parameters, const RmspropParams& params)
    : Optimizer("rmsprop", std::move(parameters)), params_(params) {
  check_share("rmsprop", "alpha", params.alpha);
  check_positive("rmsprop", "epsilon", params.epsilon);
  check_not_negative("rmsprop", "momentum", params.momentum);
  check_decay("rmsprop", params);
  square_ = declare_states(store, "square",
                           params.eps_in_root ? Initializer::ones() : Initializer::zeros());
  if (params.momentum != 0) momentum_ = declare_states(store, "momentum");
}

void Rmsprop::update(std::span<const Tensor> gradients, const Tensor& lr) {
  StepScalars numbers(lr);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &p = parameters_[i], &g = gradients[i];
    const ParameterScale own = scale_of(params_, p.spec(), scales_[i]);
    const Tensor gate = update_gate(lr, g), rate = numbers.lr(p.dtype());
    const Tensor v = next_square(params_, own.decay, square_[i], gate, g, p);
    if (momentum_.empty()) {
      UpdateProgram b(p, gate, {g, v, rate});
      const int grad = b.with_decay(b.extra(0), b.previous(), own.decay);
      const int step = b.mul(b.scale(b.extra(2), own.lr), step_of(b, params_, grad, b.extra(1)));
      b.apply(kName, b.sub(b.previous(), step));
      continue;
    }
    UpdateProgram b(momentum_[i], gate, {g, v, rate, p});
    const int grad = b.with_decay(b.extra(0), b.extra(3), own.decay);
    int step = step_of(b, params_, grad, b.extra(1));
    if (params_.eps_in_root) step = b.mul(b.scale(b.extra(2), own.lr), step);
    const Tensor buffer =
        b.apply(kName, b.add(b.mul(b.value(params_.momentum), b.previous()), step));
    UpdateProgram to(p, gate, {buffer, rate});
    const int way =
        params_.eps_in_root ? to.extra(0) : to.mul(to.scale(to.extra(1), own.lr), to.extra(0));
    to.apply(kName, to.sub(to.previous(), way));
  }
}

}  // namespace tessera
