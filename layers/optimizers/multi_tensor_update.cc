// SGD and AdamW, whose updates are one op with kernels of its own.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/engine/finite.h"
#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/op.h"
#include "tessera/layers/optimizers/adamw.h"
#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/layers/optimizers/update_programs.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// The interface of an optimizer's update op.
struct UpdateForm {
  std::string_view optimizer, op;   // "sgd", "sgd_update"
  std::vector<const char*> states;  // per parameter, at most two
  bool counts;                      // true: t follows lr in the inputs
  int64_t flops;                    // per element
};

UpdateForm form_of(const SgdParams& params) {
  if (params.momentum == 0) return {"sgd", "sgd_update", {}, false, 4};
  return {"sgd", "sgd_update", {"momentum"}, false, params.nesterov ? 8 : 6};
}
UpdateForm form_of(const AdamWParams&) { return {"adamw", "adamw_update", {"m", "v"}, true, 14}; }

template <class Params>
struct MultiTensorParams {
  Params own;
  std::vector<ParameterScale> scales;  // one for each parameter
  bool operator==(const MultiTensorParams&) const = default;
};

// Updates parameters together (multi-tensor apply). Inputs: the parameters, their gradients, lr, t
// if the optimizer counts steps, and each state of all parameters. Outputs: the next parameters and
// states. Each parameter whose gradient is not finite stays unchanged, with its states.
template <class Params>
class MultiTensorUpdate final
    : public OpBase<MultiTensorUpdate<Params>, MultiTensorParams<Params>> {
 public:
  using OpBase<MultiTensorUpdate, MultiTensorParams<Params>>::params;
  using OpBase<MultiTensorUpdate, MultiTensorParams<Params>>::OpBase;
  std::string_view name() const override { return form_.op; }
  int updates(int output) const override {
    return output < tensors() ? output : output + tensors() + scalars();
  }

  Specs infer(SpecView in) const override {
    const auto n = static_cast<size_t>(tensors()), first_state = 2 * n + scalars();
    for (size_t i = 0; i < n; ++i) {
      Specs one{in[i], in[n + i]};
      one.insert(one.end(), in.begin() + 2 * n, in.begin() + first_state);
      for (size_t at = first_state + i; at < in.size(); at += n) one.push_back(in[at]);
      check_one(one, in[0].dtype);
    }
    Specs next(in.begin(), in.begin() + n);
    next.insert(next.end(), in.begin() + first_state, in.end());
    return next;
  }

  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    if (target.device.is_cpu()) return {{}};
    const auto n = static_cast<size_t>(tensors());
    return {{.scratch_bytes = finite_scratch(in.subspan(n, n))}};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const UpdateBuffers all = buffers(in, out);
    const double lr = read_scalar(all.lr);
    const double t = form_.counts ? static_cast<double>(*all.t.as<int64_t>()) : 0;
    for (size_t i = 0; i < all.parameters.size(); ++i)
      if (may_update(ctx, {all.gradients[i], all.lr}))
        visit_float(all.parameters[i].spec.dtype,
                    [&]<class T>(T) { update_one<T>(ctx, lr, t, all, i); });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) update_cuda(ctx, params.own, buffers(in, out), scratch);
  }
  Cost cost(SpecView in) const override {
    int64_t elements = 0;
    for (const TensorSpec& x : in.first(static_cast<size_t>(tensors())))
      elements += x.shape.elements();
    return this->cost_with(in, form_.flops * elements);
  }

 private:
  int tensors() const { return static_cast<int>(params.scales.size()); }
  int scalars() const { return form_.counts ? 2 : 1; }

  void check_one(SpecView in, DType first) const {
    std::vector<const char*> names{"parameter", "gradient", "lr"};
    if (form_.counts) names.push_back("t");
    names.insert(names.end(), form_.states.begin(), form_.states.end());
    const InputCheck check(form_.optimizer, in, names);
    const auto like_parameter = [&](int i) {
      check.floats({0, i});
      check.shape(i, in[0].shape, "like the parameter");
    };
    like_parameter(1);
    check.floats({2});
    if (in[2].shape.elements() != 1) check.fail("lr must have one element");
    if (form_.counts) {
      check.dtype(3, DType::i64);
      if (in[3].shape.elements() != 1) check.fail("t must have one element");
    }
    check.dtype(0, first);
    for (int i = 2 + scalars(); i < static_cast<int>(in.size()); ++i) like_parameter(i);
  }

  UpdateBuffers buffers(Buffers in, Buffers out) const {
    const auto n = static_cast<size_t>(tensors());
    UpdateBuffers all{out.first(n), in.subspan(n, n), {}, in[2 * n], {}, params.scales};
    if (form_.counts) all.t = in[2 * n + 1];
    for (size_t k = 0; k < form_.states.size(); ++k) all.states[k] = out.subspan((k + 1) * n, n);
    return all;
  }

  template <class T>
  void update_one(CpuContext& ctx, double lr, double t, const UpdateBuffers& all, size_t i) const {
    constexpr int64_t kBlock = 16384, kAtOnce = 8;  // elements of a vector
    const ParameterScale own = scale_of(params.own, all.parameters[i].spec, params.scales[i]);
    const auto& kernels = microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(optimizer_microkernels));
    const int64_t count = all.parameters[i].elements();
    const auto at = [&](Buffers tensors, int64_t first) {
      return tensors.empty() ? nullptr : tensors[i].as<T>() + first;
    };
    with_rule<T>(params.own, [&](auto rule, auto kernel) {
      set_rule(rule, params.own, own.decay, lr * own.lr, t);
      // Blocks depend only on the count.
      ctx.pool().parallel_for(ceil_div(count, kBlock), count / kAtOnce, [&](int64_t block) {
        const int64_t first = block * kBlock, last = std::min(count, first + kBlock);
        (kernels.*kernel)(rule, at(all.gradients, first), last - first, at(all.parameters, first),
                          at(all.states[0], first), at(all.states[1], first));
      });
    });
  }

  const UpdateForm form_ = form_of(params.own);
};

// Applies the op to groups of parameters. On the CPU each parameter has its own op, so that a
// captured step frees a gradient right after its use. On a GPU an op takes consecutive parameters
// of one dtype, because launching many small kernels would cost more than their work. All gradients
// are then in memory at the end of the backward pass, when the activations, which were larger, are
// freed.
// `scalars`: lr, and t if the optimizer counts steps; `states`: one list for each state.
template <class Params>
void update_groups(const Params& params, const Tensors& parameters,
                   std::span<const Tensor> gradients, std::span<const Tensor> scalars,
                   std::initializer_list<std::span<const Tensor>> states,
                   const std::vector<ParameterScale>& scales) {
  for (size_t first = 0, count = 0; first < parameters.size(); first += count) {
    const TensorSpec& spec = parameters[first].spec();
    count = 1;
    while (!spec.device.is_cpu() && first + count < parameters.size() &&
           parameters[first + count].dtype() == spec.dtype)
      ++count;
    Tensors in;
    const auto add = [&](std::span<const Tensor> all) {
      in.insert(in.end(), all.begin(), all.end());
    };
    add(std::span(parameters).subspan(first, count));
    add(gradients.subspan(first, count));
    add(scalars);
    for (const std::span<const Tensor> state : states) add(state.subspan(first, count));
    const auto own = std::span(scales).subspan(first, count);
    tessera::apply(std::make_shared<MultiTensorUpdate<Params>>(
                       MultiTensorParams<Params>{params, {own.begin(), own.end()}}),
                   std::move(in));
  }
}

}  // namespace

Sgd::Sgd(Store& store, Tensors parameters, const SgdParams& params)
    : Optimizer("sgd", std::move(parameters)), params_(params) {
  check_not_negative("sgd", "momentum", params.momentum);
  check_decay("sgd", params);
  if (params.nesterov && params.momentum == 0)
    throw ConfigError("sgd: nesterov needs a momentum above 0, but momentum is 0");
  if (params.momentum != 0) momentum_ = declare_states(store, "momentum");
}

void Sgd::update(std::span<const Tensor> gradients, const Tensor& lr) {
  if (momentum_.empty())
    update_groups(params_, parameters_, gradients, {&lr, 1}, {}, scales_);
  else
    update_groups(params_, parameters_, gradients, {&lr, 1}, {momentum_}, scales_);
}

AdamW::AdamW(Store& store, Tensors parameters, const AdamWParams& params)
    : Optimizer("adamw", std::move(parameters)), params_(params) {
  check_share("adamw", "beta1", params.beta1);
  check_share("adamw", "beta2", params.beta2);
  check_positive("adamw", "epsilon", params.epsilon);
  check_decay("adamw", params);
  m_ = declare_states(store, "m");
  v_ = declare_states(store, "v");
  step_ = declare_step(store);
}

void AdamW::update(std::span<const Tensor> gradients, const Tensor& lr) {
  const Tensor scalars[] = {lr, increment_step(step_, lr)};
  update_groups(params_, parameters_, gradients, scalars, {m_, v_}, scales_);
}

}  // namespace tessera
