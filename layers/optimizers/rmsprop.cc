#include "tessera/layers/optimizers/rmsprop.h"

#include "tessera/engine/autograd.h"
#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/optimizers/update_programs.h"

namespace tessera {
namespace {

constexpr std::string_view kName = "rmsprop_update";

// slope / root(v)
int step_of(UpdateProgram& b, const RmspropParams& s, int slope, int v) {
  const int eps = b.value(s.epsilon);
  return b.div(slope, s.eps_in_root ? b.root(b.add(v, eps)) : b.add(b.root(v), eps));
}

Tensor next_square(const RmspropParams& s, double decay, const Tensor& v, const Tensor& gate,
                   const Tensor& g, const Tensor& p) {
  UpdateProgram b(v, gate, {g, p});
  const int slope = b.with_decay(b.more(0), b.more(1), decay), square = b.mul(slope, slope);
  if (s.eps_in_root) return b.becomes(kName, b.towards(b.old(), square, 1 - s.alpha));
  const int kept = b.mul(b.value(s.alpha), b.old());
  return b.becomes(kName, b.add(kept, b.mul(b.value(1 - s.alpha), square)));
}

}  // namespace

Rmsprop::Rmsprop(Store& store, Tensors parameters, const RmspropParams& params)
    : Optimizer(std::move(parameters)), params_(params) {
  check_share("rmsprop", "alpha", params.alpha);
  check_positive("rmsprop", "epsilon", params.epsilon);
  check_not_negative("rmsprop", "momentum", params.momentum);
  check_decay("rmsprop", params);
  square_ = declare_states(store, "square",
                           params.eps_in_root ? Initializer::ones() : Initializer::zeros());
  if (params.momentum != 0) momentum_ = declare_states(store, "momentum");
}

void Rmsprop::step(std::span<const Tensor> gradients, const Tensor& lr) {
  const NoGradScope no_grad;
  check_count("rmsprop", gradients);
  StepNumbers numbers(lr);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &p = parameters_[i], &g = gradients[i];
    const ParameterScale own = scale_of(params_, p.spec(), scales_[i]);
    const Tensor gate = update_gate(lr, g), rate = numbers.lr(p.dtype());
    const Tensor v = next_square(params_, own.decay, square_[i], gate, g, p);
    if (momentum_.empty()) {
      UpdateProgram b(p, gate, {g, v, rate});
      const int slope = b.with_decay(b.more(0), b.old(), own.decay);
      const int step = b.mul(b.times(b.more(2), own.lr), step_of(b, params_, slope, b.more(1)));
      b.becomes(kName, b.sub(b.old(), step));
      continue;
    }
    UpdateProgram b(momentum_[i], gate, {g, v, rate, p});
    const int slope = b.with_decay(b.more(0), b.more(3), own.decay);
    int step = step_of(b, params_, slope, b.more(1));
    if (params_.eps_in_root) step = b.mul(b.times(b.more(2), own.lr), step);
    const Tensor buffer = b.becomes(kName, b.add(b.mul(b.value(params_.momentum), b.old()), step));
    UpdateProgram to(p, gate, {buffer, rate});
    const int way =
        params_.eps_in_root ? to.more(0) : to.mul(to.times(to.more(1), own.lr), to.more(0));
    to.becomes(kName, to.sub(to.old(), way));
  }
}

}  // namespace tessera
