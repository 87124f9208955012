#include "tessera/layers/adamw.h"

#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/op.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/optimizer_cpu.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// counter, lr -> counter + 1, int64[1]; not where lr is not finite, as nothing is updated then.
struct CountParams {
  bool operator==(const CountParams&) const = default;
};

class CountUp final : public OpBase<CountUp> {
 public:
  std::string_view name() const override { return "count_up"; }
  Specs infer(std::span<const TensorSpec> in) const override {
    InputCheck check("count_up", in, {"counter", "lr"});
    check.dtype(0, DType::i64);
    check.shape(0, {1}, "one counter");
    check.floats({1});
    if (in[1].shape.elements() != 1) check.fail("lr must have one element");
    return {in[0]};
  }
  int updates(int) const override { return 0; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    if (std::isfinite(read_scalar(in[1]))) ++*out[0].as<int64_t>();
  }

  const CountParams params{};
};

template <class T>
void update(const AdamWParams& params, double lr, double t, const T* g, T* p, T* m, T* v,
            int64_t count) {
  const T keep = static_cast<T>(1 - lr * params.weight_decay);
  const T mix1 = static_cast<T>(1 - params.beta1);
  const T beta2 = static_cast<T>(params.beta2), mix2 = static_cast<T>(1 - params.beta2);
  const T rate = static_cast<T>(lr / (1 - std::pow(params.beta1, t)));
  const T root = static_cast<T>(std::sqrt(1 - std::pow(params.beta2, t)));
  const T epsilon = static_cast<T>(params.epsilon);
  for (int64_t i = 0; i < count; ++i) {
    const T first = m[i] + mix1 * (g[i] - m[i]);
    const T second = beta2 * v[i] + mix2 * (g[i] * g[i]);
    m[i] = first;
    v[i] = second;
    p[i] = p[i] * keep - rate * (first / (std::sqrt(second) / root + epsilon));
  }
}

// Inputs: parameter, gradient, lr, t, m, v. Outputs: the next parameter, m and v.
class AdamWUpdate final : public OpBase<AdamWUpdate> {
 public:
  explicit AdamWUpdate(const AdamWParams& params) : params(params) {}
  std::string_view name() const override { return "adamw_update"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    InputCheck check("adamw", in, {"parameter", "gradient", "lr", "t", "m", "v"});
    check.floats({0, 1, 4, 5});
    check.floats({2});
    check.dtype(3, DType::i64);
    for (int i : {1, 4, 5}) check.shape(i, in[0].shape, "like the parameter");
    if (in[2].shape.elements() != 1) check.fail("lr must have one element");
    if (in[3].shape.elements() != 1) check.fail("t must have one element");
    return {in[0], in[4], in[5]};
  }
  int updates(int output) const override { return output == 0 ? 0 : output + 3; }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer) const override {
    if (!may_update(where, {in[1], in[2]})) return;
    const double lr = read_scalar(in[2]);
    const auto t = static_cast<double>(*in[3].as<int64_t>());
    visit_float(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_ranges(where.pool(), out[0].elements(), [&](int64_t first, int64_t last) {
        update(params, lr, t, in[1].as<T>() + first, out[0].as<T>() + first, out[1].as<T>() + first,
               out[2].as<T>() + first, last - first);
      });
    });
  }

  const AdamWParams params;
};

void check_params(const AdamWParams& s) {
  for (const auto& [name, beta] : {std::pair{"beta1", s.beta1}, std::pair{"beta2", s.beta2}}) {
    if (beta >= 0 && beta < 1) continue;
    throw ConfigError(fmt::format("adamw: {} must be in [0, 1), is {}", name, beta));
  }
  if (!(s.epsilon > 0)) {
    throw ConfigError(fmt::format("adamw: epsilon must be positive, is {}", s.epsilon));
  }
  if (!(s.weight_decay >= 0)) {
    throw ConfigError(
        fmt::format("adamw: weight_decay must not be negative, is {}", s.weight_decay));
  }
}

}  // namespace

void adamw_update(const Tensor& parameter, const Tensor& gradient, const Tensor& m, const Tensor& v,
                  const Tensor& t, const Tensor& lr, const AdamWParams& params) {
  NoGradScope no_grad;
  AdamWParams own = params;
  if (!params.decay_vectors && parameter.shape().rank() <= 1) own.weight_decay = 0;
  tessera::apply(std::make_shared<AdamWUpdate>(own), {parameter, gradient, lr, t, m, v});
}

AdamW::AdamW(Store& store, Tensors parameters, const AdamWParams& params)
    : Optimizer(std::move(parameters)), params_(params) {
  check_params(params_);
  m_ = declare_states(store, "m");
  v_ = declare_states(store, "v");
  step_ = store.optimizer_state("optimizer.step", {1}, Initializer::zeros(), DType::i64);
}

void AdamW::step(std::span<const Tensor> gradients, const Tensor& lr) {
  check_count("adamw", gradients);
  const Tensor t = apply1(std::make_shared<CountUp>(), {step_, lr});
  for (size_t i = 0; i < gradients.size(); ++i)
    adamw_update(parameters_[i], gradients[i], m_[i], v_[i], t, lr, params_);
}

}  // namespace tessera
