#include "tessera/layers/optimizers/sgd.h"

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/op.h"
#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/optimizers/update_programs.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

struct UpdateParams {
  SgdParams sgd;
  int tensors;
  std::vector<ParameterScale> scales;
  bool operator==(const UpdateParams&) const = default;
};

// Inputs: the parameters, as many gradients, lr and, with momentum, as many buffers. Outputs: the
// next parameters and buffers.
class SgdUpdate final : public JoinedUpdate<SgdUpdate> {
 public:
  static constexpr int kScalars = 1;  // lr
  explicit SgdUpdate(const UpdateParams& params) : params(params) {}
  std::string_view name() const override { return "sgd_update"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    const auto n = static_cast<size_t>(params.tensors);
    Specs next(in.begin(), in.begin() + params.tensors);
    for (size_t i = 0; i < n; ++i) {
      Specs one{in[i], in[n + i], in[2 * n]};
      if (has_momentum()) one.push_back(in[2 * n + 1 + i]);
      check_one(one, in[0]);
    }
    if (has_momentum()) next.insert(next.end(), in.end() - params.tensors, in.end());
    return next;
  }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer) const override {
    const SgdBuffers all = buffers(in, out);
    const double lr = read_scalar(all.lr);
    for (size_t i = 0; i < all.parameters.size(); ++i)
      if (may_update(where, {all.gradients[i], all.lr})) update_one(where, lr, all, i);
  }
  void run(CudaContext& where, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) sgd_update_cuda(where, params.sgd, buffers(in, out), scratch);
  }

  Cost cost(std::span<const TensorSpec> in) const override {
    const int64_t of_element = !has_momentum() ? 4 : params.sgd.nesterov ? 8 : 6;
    return cost_with(in, of_element * updated(in));
  }

  const UpdateParams params;

 private:
  bool has_momentum() const { return params.sgd.momentum != 0; }

  void check_one(std::span<const TensorSpec> in, const TensorSpec& first) const {
    const InputCheck check =
        has_momentum() ? InputCheck("sgd", in, {"parameter", "gradient", "lr", "momentum"})
                       : InputCheck("sgd", in, {"parameter", "gradient", "lr"});
    check.floats({0, 1});
    check.shape(1, in[0].shape, "like the parameter");
    check.floats({2});
    if (in[2].shape.elements() != 1) check.fail("lr must have one element");
    check.dtype(0, first.dtype);
    if (!has_momentum()) return;
    check.floats({0, 3});
    check.shape(3, in[0].shape, "like the parameter");
  }

  SgdBuffers buffers(Buffers in, Buffers out) const {
    const auto n = static_cast<size_t>(params.tensors);
    return {out.first(n), in.subspan(n, n), out.subspan(n), in[2 * n], params.scales};
  }

  void update_one(CpuContext& where, double lr, const SgdBuffers& all, size_t i) const {
    visit_float(all.parameters[i].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      const ParameterScale own = scale_of(params.sgd, all.parameters[i].spec, params.scales[i]);
      const SgdRates<T> rates{static_cast<T>(lr * own.lr), static_cast<T>(own.decay),
                              static_cast<T>(params.sgd.momentum)};
      const auto& kernels = optimizer_microkernels_for<T>();
      const T* g = all.gradients[i].as<T>();
      T* p = all.parameters[i].as<T>();
      T* b = has_momentum() ? all.momentum[i].as<T>() : nullptr;
      for_ranges(where.pool(), all.parameters[i].elements(), [&](int64_t first, int64_t last) {
        if (b == nullptr) {
          kernels.sgd(rates, g + first, last - first, p + first);
        } else {
          const auto update = params.sgd.nesterov ? kernels.nesterov : kernels.momentum;
          update(rates, g + first, last - first, p + first, b + first);
        }
      });
    });
  }
};

// `momentum` is empty without.
void update(std::span<const Tensor> parameters, std::span<const Tensor> gradients,
            std::span<const Tensor> momentum, const Tensor& lr, const SgdParams& params,
            std::span<const ParameterScale> scales) {
  NoGradScope no_grad;
  const UpdateParams own{
      params, static_cast<int>(parameters.size()), {scales.begin(), scales.end()}};
  Tensors in(parameters.begin(), parameters.end());
  in.insert(in.end(), gradients.begin(), gradients.end());
  in.push_back(lr);
  in.insert(in.end(), momentum.begin(), momentum.end());
  tessera::apply(std::make_shared<SgdUpdate>(own), std::move(in));
}

void check_params(const SgdParams& s) {
  check_not_negative("sgd", "momentum", s.momentum);
  check_decay("sgd", s);
  if (s.nesterov && s.momentum == 0) {
    throw ConfigError("sgd: nesterov needs a momentum above 0, is 0");
  }
}

}  // namespace

void sgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum,
                const Tensor& lr, const SgdParams& params) {
  const std::span state(&momentum, params.momentum != 0 ? 1 : 0);
  const ParameterScale scale;
  update({&parameter, 1}, {&gradient, 1}, state, lr, params, {&scale, 1});
}

Sgd::Sgd(Store& store, Tensors parameters, const SgdParams& params)
    : Optimizer(std::move(parameters)), params_(params) {
  check_params(params_);
  if (params_.momentum != 0) momentum_ = declare_states(store, "momentum");
}

void Sgd::step(std::span<const Tensor> gradients, const Tensor& lr) {
  check_count("sgd", gradients);
  for_joined([&](size_t first, size_t count) {
    const auto part = [&](std::span<const Tensor> all) { return all.subspan(first, count); };
    update(part(parameters_), part(gradients),
           momentum_.empty() ? std::span<const Tensor>() : part(momentum_), lr, params_,
           std::span(scales_).subspan(first, count));
  });
}

}  // namespace tessera
