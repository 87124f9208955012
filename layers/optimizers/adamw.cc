#include "tessera/layers/optimizers/adamw.h"

#include "tessera/layers/optimizers/multi_tensor_update.h"
#include "tessera/layers/optimizers/update_programs.h"

namespace tessera {

UpdateForm form_of(const AdamWParams&) { return {"adamw", "adamw_update", {"m", "v"}, true, 14}; }

namespace {

void check_params(const AdamWParams& s) {
  check_share("adamw", "beta1", s.beta1);
  check_share("adamw", "beta2", s.beta2);
  check_positive("adamw", "epsilon", s.epsilon);
  check_decay("adamw", s);
}

}  // namespace

AdamW::AdamW(Store& store, Tensors parameters, const AdamWParams& params)
    : Optimizer(std::move(parameters)), params_(params) {
  check_params(params_);
  m_ = declare_states(store, "m");
  v_ = declare_states(store, "v");
  step_ = store.optimizer_state("optimizer.step", {1}, Initializer::zeros(), DType::i64);
}

void AdamW::step(std::span<const Tensor> gradients, const Tensor& lr) {
  check_count("adamw", gradients);
  const Tensors scalars{lr, increment_step(step_, lr)};
  for_each_group([&](size_t first, size_t count) {
    const auto part = [&](std::span<const Tensor> all) { return all.subspan(first, count); };
    update_joined(params_, part(parameters_), part(gradients), scalars, {part(m_), part(v_)},
                  std::span(scales_).subspan(first, count));
  });
}

}  // namespace tessera
