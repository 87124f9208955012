#include "tessera/layers/sgd.h"

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/op.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/optimizer_cpu.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

template <class T>
void update_plain(const SgdParams& params, double lr, const T* g, T* p, int64_t count) {
  const T rate = static_cast<T>(lr), decay = static_cast<T>(params.weight_decay);
  for (int64_t i = 0; i < count; ++i) p[i] -= rate * (g[i] + decay * p[i]);
}

template <class T, bool kNesterov>
void update_momentum(const SgdParams& params, double lr, const T* g, T* p, T* b, int64_t count) {
  const T rate = static_cast<T>(lr), decay = static_cast<T>(params.weight_decay);
  const T momentum = static_cast<T>(params.momentum);
  for (int64_t i = 0; i < count; ++i) {
    const T slope = g[i] + decay * p[i];
    const T buffer = momentum * b[i] + slope;
    b[i] = buffer;
    p[i] -= rate * (kNesterov ? slope + momentum * buffer : buffer);
  }
}

// Inputs: parameter, gradient, lr and, with momentum, the buffer. Outputs: the next parameter and
// buffer.
class SgdUpdate final : public OpBase<SgdUpdate> {
 public:
  explicit SgdUpdate(const SgdParams& params) : params(params) {}
  std::string_view name() const override { return "sgd_update"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    const bool momentum = params.momentum != 0;
    InputCheck check = momentum ? InputCheck("sgd", in, {"parameter", "gradient", "lr", "momentum"})
                                : InputCheck("sgd", in, {"parameter", "gradient", "lr"});
    check.floats({0, 1});
    check.shape(1, in[0].shape, "like the parameter");
    check.floats({2});
    if (in[2].shape.elements() != 1) check.fail("lr must have one element");
    if (!momentum) return {in[0]};
    check.floats({0, 3});
    check.shape(3, in[0].shape, "like the parameter");
    return {in[0], in[3]};
  }
  int updates(int output) const override { return output == 0 ? 0 : 3; }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer) const override {
    if (!may_update(where, {in[1], in[2]})) return;
    const double lr = read_scalar(in[2]);
    visit_float(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      const T* g = in[1].as<T>();
      T* p = out[0].as<T>();
      T* b = params.momentum != 0 ? out[1].as<T>() : nullptr;
      for_ranges(where.pool(), out[0].elements(), [&](int64_t first, int64_t last) {
        if (b == nullptr) {
          update_plain(params, lr, g + first, p + first, last - first);
        } else if (params.nesterov) {
          update_momentum<T, true>(params, lr, g + first, p + first, b + first, last - first);
        } else {
          update_momentum<T, false>(params, lr, g + first, p + first, b + first, last - first);
        }
      });
    });
  }

  const SgdParams params;
};

void check_params(const SgdParams& s) {
  if (!(s.momentum >= 0)) {
    throw ConfigError(fmt::format("sgd: momentum must not be negative, is {}", s.momentum));
  }
  if (!(s.weight_decay >= 0)) {
    throw ConfigError(fmt::format("sgd: weight_decay must not be negative, is {}", s.weight_decay));
  }
  if (s.nesterov && s.momentum == 0) {
    throw ConfigError("sgd: nesterov needs a momentum above 0, is 0");
  }
}

}  // namespace

void sgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum,
                const Tensor& lr, const SgdParams& params) {
  NoGradScope no_grad;
  SgdParams own = params;
  if (!params.decay_vectors && parameter.shape().rank() <= 1) own.weight_decay = 0;
  Tensors in{parameter, gradient, lr};
  if (params.momentum != 0) in.push_back(momentum);
  tessera::apply(std::make_shared<SgdUpdate>(own), std::move(in));
}

Sgd::Sgd(Store& store, Tensors parameters, const SgdParams& params)
    : Optimizer(std::move(parameters)), params_(params) {
  check_params(params_);
  if (params_.momentum != 0) momentum_ = declare_states(store, "momentum");
}

void Sgd::step(std::span<const Tensor> gradients, const Tensor& lr) {
  check_count("sgd", gradients);
  for (size_t i = 0; i < gradients.size(); ++i)
    sgd_update(parameters_[i], gradients[i], momentum_.empty() ? Tensor() : momentum_[i], lr,
               params_);
}

}  // namespace tessera
