#include "tessera/layers/optimizers/sgd.h"

#include "tessera/layers/optimizers/multi_tensor_update.h"
#include "tessera/layers/optimizers/update_programs.h"
#include "tessera/runtime/error.h"

namespace tessera {

UpdateForm form_of(const SgdParams& params) {
  if (params.momentum == 0) return {"sgd", "sgd_update", {}, false, 4};
  return {"sgd", "sgd_update", {"momentum"}, false, params.nesterov ? 8 : 6};
}

namespace {

void check_params(const SgdParams& s) {
  check_not_negative("sgd", "momentum", s.momentum);
  check_decay("sgd", s);
  if (s.nesterov && s.momentum == 0) {
    throw ConfigError("sgd: nesterov needs a momentum above 0, but momentum is 0");
  }
}

}  // namespace

Sgd::Sgd(Store& store, Tensors parameters, const SgdParams& params)
    : Optimizer(std::move(parameters)), params_(params) {
  check_params(params_);
  if (params_.momentum != 0) momentum_ = declare_states(store, "momentum");
}

void Sgd::step(std::span<const Tensor> gradients, const Tensor& lr) {
  check_count("sgd", gradients);
  for_each_group([&](size_t first, size_t count) {
    const auto part = [&](std::span<const Tensor> all) { return all.subspan(first, count); };
    update_joined(params_, part(parameters_), part(gradients), {&lr, 1},
                  {momentum_.empty() ? std::span<const Tensor>() : part(momentum_)},
                  std::span(scales_).subspan(first, count));
  });
}

}  // namespace tessera
