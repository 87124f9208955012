#include "tessera/layers/optimizers/adamw.h"

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

struct AdamWUpdateParams {
  AdamWParams adamw;
  int tensors;
  std::vector<ParameterScale> scales;
  bool operator==(const AdamWUpdateParams&) const = default;
};

// Inputs: the parameters, as many gradients, lr, t, as many m and v. Outputs: the next parameters,
// m and v.
class AdamWUpdate final : public JoinedUpdate<AdamWUpdate> {
 public:
  static constexpr int kScalars = 2;  // lr, t
  explicit AdamWUpdate(const AdamWUpdateParams& params) : params(params) {}
  std::string_view name() const override { return "adamw_update"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    const auto n = static_cast<size_t>(params.tensors);
    for (size_t i = 0; i < n; ++i)
      check_one(
          Specs{in[i], in[n + i], in[2 * n], in[2 * n + 1], in[2 * n + 2 + i], in[3 * n + 2 + i]},
          in[0]);
    Specs next(in.begin(), in.begin() + params.tensors);
    next.insert(next.end(), in.end() - 2 * params.tensors, in.end());
    return next;
  }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer) const override {
    const AdamWBuffers all = buffers(in, out);
    const double lr = read_scalar(all.lr);
    const auto t = static_cast<double>(*all.t.as<int64_t>());
    for (size_t i = 0; i < all.parameters.size(); ++i)
      if (may_update(where, {all.gradients[i], all.lr})) update_one(where, lr, t, all, i);
  }
  void run(CudaContext& where, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) adamw_update_cuda(where, params.adamw, buffers(in, out), scratch);
  }

  Cost cost(std::span<const TensorSpec> in) const override {
    return cost_with(in, 14 * updated(in));
  }

  const AdamWUpdateParams params;

 private:
  static void check_one(std::span<const TensorSpec> in, const TensorSpec& first) {
    const InputCheck check("adamw", in, {"parameter", "gradient", "lr", "t", "m", "v"});
    check.floats({0, 1, 4, 5});
    check.floats({2});
    check.dtype(3, DType::i64);
    for (int i : {1, 4, 5}) check.shape(i, in[0].shape, "like the parameter");
    if (in[2].shape.elements() != 1) check.fail("lr must have one element");
    if (in[3].shape.elements() != 1) check.fail("t must have one element");
    check.dtype(0, first.dtype);
  }

  AdamWBuffers buffers(Buffers in, Buffers out) const {
    const auto n = static_cast<size_t>(params.tensors);
    return {out.first(n), in.subspan(n, n), out.subspan(n, n), out.subspan(2 * n),
            in[2 * n],    in[2 * n + 1],    params.scales};
  }

  void update_one(CpuContext& where, double lr, double t, const AdamWBuffers& all, size_t i) const {
    visit_float(all.parameters[i].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      const ParameterScale own = scale_of(params.adamw, all.parameters[i].spec, params.scales[i]);
      const AdamWRates<T> rates = adamw_rates<T>(params.adamw, own.decay, lr * own.lr, t);
      const auto& kernels = optimizer_microkernels_for<T>();
      const T* g = all.gradients[i].as<T>();
      T *p = all.parameters[i].as<T>(), *m = all.m[i].as<T>(), *v = all.v[i].as<T>();
      for_ranges(where.pool(), all.parameters[i].elements(), [&](int64_t first, int64_t last) {
        kernels.adamw[params.adamw.coupled](rates, g + first, last - first, p + first, m + first,
                                            v + first);
      });
    });
  }
};

void update(std::span<const Tensor> parameters, std::span<const Tensor> gradients,
            std::span<const Tensor> m, std::span<const Tensor> v, const Tensor& t, const Tensor& lr,
            const AdamWParams& params, std::span<const ParameterScale> scales) {
  NoGradScope no_grad;
  const AdamWUpdateParams own{
      params, static_cast<int>(parameters.size()), {scales.begin(), scales.end()}};
  Tensors in(parameters.begin(), parameters.end());
  in.insert(in.end(), gradients.begin(), gradients.end());
  in.push_back(lr);
  in.push_back(t);
  in.insert(in.end(), m.begin(), m.end());
  in.insert(in.end(), v.begin(), v.end());
  tessera::apply(std::make_shared<AdamWUpdate>(own), std::move(in));
}

void check_params(const AdamWParams& s) {
  check_share("adamw", "beta1", s.beta1);
  check_share("adamw", "beta2", s.beta2);
  check_positive("adamw", "epsilon", s.epsilon);
  check_decay("adamw", s);
}

}  // namespace

void adamw_update(const Tensor& parameter, const Tensor& gradient, const Tensor& m, const Tensor& v,
                  const Tensor& t, const Tensor& lr, const AdamWParams& params) {
  const ParameterScale scale;
  update({&parameter, 1}, {&gradient, 1}, {&m, 1}, {&v, 1}, t, lr, params, {&scale, 1});
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
  const Tensor t = count_up(step_, lr);
  for_joined([&](size_t first, size_t count) {
    const auto part = [&](std::span<const Tensor> all) { return all.subspan(first, count); };
    update(part(parameters_), part(gradients), part(m_), part(v_), t, lr, params_,
           std::span(scales_).subspan(first, count));
  });
}

}  // namespace tessera
