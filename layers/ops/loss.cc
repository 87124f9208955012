#include "tessera/layers/ops/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "tessera/engine/float_functions.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/softmax.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/for_rows.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {
namespace {

constexpr int64_t kTaskLogits = 1024;  // logits of a task; each row is summed by itself, in order

// Returns log(sum_j exp(z[j])); large z do not overflow.
template <class T>
double log_sum_exp(const T* z, int64_t c) {
  T top = z[0];
  for (int64_t j = 1; j < c; ++j) top = std::max(top, z[j]);
  double sum = 0;
  for (int64_t j = 0; j < c; ++j) sum += exp_of(z[j] - top);
  return top + (sizeof(T) == sizeof(float) ? log_in_double(sum) : std::log(sum));
}

template <class T>
double row_loss(const CrossEntropyCase<T>& in, int64_t i) {
  const T* z = in.logits + i * in.c;
  double wanted = 0, all = 0, weight = 1;  // sums of t z, of z and of t
  if (in.labels != nullptr) {
    const int64_t label = in.labels[i];
    if (label < 0 || label >= in.c) return std::numeric_limits<double>::quiet_NaN();
    wanted = z[label];
  } else {
    const T* t = in.targets + i * in.c;
    weight = 0;
    for (int64_t j = 0; j < in.c; ++j) wanted += double{t[j]} * z[j], weight += t[j];
  }
  if (in.smoothing != 0)
    for (int64_t j = 0; j < in.c; ++j) all += z[j];
  const double s = in.smoothing;
  return ((1 - s) * weight + s) * log_sum_exp(z, in.c) - (1 - s) * wanted -
         s / static_cast<double>(in.c) * all;
}

// Works in place if d_logits [n, c] is the logits. A row whose label is out of range becomes NaN.
template <class T>
void cross_entropy_logits_grad(ThreadPool& pool, const CrossEntropyCase<T>& in, const T* d_loss,
                               T* d_logits) {
  const double scale = *d_loss / static_cast<double>(in.n);
  const double s = in.smoothing, floor = s / static_cast<double>(in.c);
  for_rows(pool, in.n, in.c, kTaskLogits, [&](int64_t i) {
    const T* z = in.logits + i * in.c;
    T* dz = d_logits + i * in.c;
    const double log_sum = log_sum_exp(z, in.c);
    if (in.labels != nullptr) {
      const int64_t label = in.labels[i];
      const bool known = label >= 0 && label < in.c;
      const double factor = known ? scale : std::numeric_limits<double>::quiet_NaN();
      for (int64_t j = 0; j < in.c; ++j) {
        const double t = (j == label ? 1 - s : 0) + floor;
        dz[j] = static_cast<T>(factor * (exp_of(static_cast<T>(z[j] - log_sum)) - t));
      }
      return;
    }
    const T* t = in.targets + i * in.c;
    double weight = 0;
    for (int64_t j = 0; j < in.c; ++j) weight += t[j];
    weight = (1 - s) * weight + s;
    for (int64_t j = 0; j < in.c; ++j) {
      const double p = exp_of(static_cast<T>(z[j] - log_sum));
      dz[j] = static_cast<T>(scale * (weight * p - (1 - s) * t[j] - floor));
    }
  });
}

// d_targets [n, c] = (1 - s) / n (-log p) d_loss
template <class T>
void cross_entropy_targets_grad(ThreadPool& pool, const CrossEntropyCase<T>& in, const T* d_loss,
                                T* d_targets) {
  const double scale = (1 - in.smoothing) * *d_loss / static_cast<double>(in.n);
  for_rows(pool, in.n, in.c, kTaskLogits, [&](int64_t i) {
    const T* z = in.logits + i * in.c;
    const double log_sum = log_sum_exp(z, in.c);
    for (int64_t j = 0; j < in.c; ++j)
      d_targets[i * in.c + j] = static_cast<T>(scale * (log_sum - z[j]));
  });
}

enum class Wanted : uint8_t { logits, targets };

struct CrossEntropyGradParams {
  CrossEntropyParams loss;
  Wanted wanted = Wanted::logits;
  bool operator==(const CrossEntropyGradParams&) const = default;
};

// Inputs: logits, labels or targets, d_loss [].
class CrossEntropyGrad final : public OpBase<CrossEntropyGrad, CrossEntropyGradParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override {
    return params.wanted == Wanted::logits ? "cross_entropy_grad" : "cross_entropy_targets_grad";
  }
  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"logits", "labels", "d_loss"});
    check.floats({0, 2});
    check.shape(2, {}, "the gradient of the loss");
    return {{in[0].dtype, in[0].shape, {}}};
  }
  uint32_t may_reuse(int) const override { return 0b1; }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      const CrossEntropyCase<T> data(in, params.loss.label_smoothing);
      const auto compute = params.wanted == Wanted::logits ? cross_entropy_logits_grad<T>
                                                           : cross_entropy_targets_grad<T>;
      compute(ctx.pool(), data, in[2].as<T>(), out[0].as<T>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      cross_entropy_grad_cuda(ctx, params.loss.label_smoothing, params.wanted == Wanted::logits, in,
                              out[0]);
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b111}; }
  // Differentiates, for p = softmax(logits), smoothed targets s t + r and their sum w in each row:
  // d_logits = d_loss / n (w p - s t - r), d_targets = d_loss / n s (log_sum_exp - logits).
  Tensors grad(const GradArgs& args) const override {
    const Tensor &logits = args.inputs[0], &labels = args.inputs[1], &d_loss = args.inputs[2];
    const Tensor& g = args.grad_outputs[0];
    const std::vector<int> row{-1};
    const double s = 1 - params.loss.label_smoothing;
    const Tensor scale = d_loss / static_cast<double>(logits.shape()[0]);
    const Tensor p = softmax(logits);
    const bool of_logits = params.wanted == Wanted::logits, soft = is_float(labels.dtype());
    Tensors grads(3);
    if (args.needs(0)) {
      Tensor grad = of_logits ? p * (g - sum(g * p, row, true)) : s * (p * sum(g, row, true) - g);
      if (of_logits && soft) grad = grad * (s * sum(labels, row, true) + (1 - s));
      grads[0] = grad * scale;
    }
    if (args.needs(1))
      grads[1] = of_logits ? scale * s * (sum(g * p, row, true) - g)
                           : zeros(labels.shape(), labels.dtype());
    if (args.needs(2))
      grads[2] = sum(g * apply1(std::make_shared<CrossEntropyGrad>(params),
                                {logits, labels, ones({}, d_loss.dtype())}));
    return grads;
  }

  // Counts four flops for each logit in log_sum_exp() and four more in its gradient.
  Cost cost(SpecView in) const override { return cost_with(in, 8 * in[0].shape.elements()); }
};

class CrossEntropy final : public OpBase<CrossEntropy, CrossEntropyParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "cross_entropy"; }

  Specs infer(SpecView in) const override {
    InputCheck check("cross_entropy", in, {"logits", "labels"});
    check.floats({0});
    check.rank(0, 2);
    const Shape& shape = in[0].shape;
    if (shape.elements() == 0) check.fail("logits must have at least one row and one class");
    if (in[1].dtype == DType::i32) {
      check.shape(1, {shape[0]}, "one label for each row of logits");
    } else if (is_float(in[1].dtype)) {
      check.floats({0, 1});
      check.shape(1, shape, "one target for each logit");
    } else {
      check.fail(fmt::format(
          "labels must be int32, or targets of the dtype of logits, but are {}; use cast()",
          name_of(in[1].dtype)));
    }
    if (!(params.label_smoothing >= 0 && params.label_smoothing < 1)) {
      check.fail(
          fmt::format("label_smoothing must be in [0, 1), but is {}", params.label_smoothing));
    }
    return {{compute_type(in[0].dtype), {}, {}}};
  }

  std::vector<Algorithm> algorithms(SpecView in, const Target&) const override {
    return {{.scratch_bytes = static_cast<size_t>(in[0].shape[0]) * sizeof(double)}};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      const CrossEntropyCase<T> data(in, params.label_smoothing);
      auto* rows = scratch.as<double>();
      for_rows(ctx.pool(), data.n, data.c, kTaskLogits,
               [&](int64_t i) { rows[i] = row_loss(data, i); });
      const double sum = std::accumulate(rows, rows + data.n, 0.0);
      *out[0].as<T>() = static_cast<T>(sum / static_cast<double>(data.n));
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda)
      cross_entropy_loss_cuda(ctx, params.label_smoothing, in, out[0], scratch.as<double>());
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b11}; }
  Tensors grad(const GradArgs& args) const override {
    Tensors grads(2);
    const Tensors in{args.inputs[0], args.inputs[1], args.grad_outputs[0]};
    auto gradient = [&](Wanted wanted) {
      return apply1(std::make_shared<CrossEntropyGrad>(CrossEntropyGradParams{params, wanted}), in);
    };
    if (args.needs(0)) grads[0] = gradient(Wanted::logits);
    if (args.needs(1) && is_float(args.input_specs[1].dtype)) grads[1] = gradient(Wanted::targets);
    return grads;
  }

  // Counts log_sum_exp() and, for targets, their sum and the sum of their products with the logits.
  Cost cost(SpecView in) const override {
    return cost_with(in, (is_float(in[1].dtype) ? 7 : 4) * in[0].shape.elements());
  }
};

// Throws an Error if a label that can be read is out of range, because kernels cannot throw.
void check_labels(const Tensor& labels, int64_t classes) {
  if (labels.dtype() != DType::i32 || !labels.device().is_cpu() || current_recorder() != nullptr)
    return;
  const std::vector<int32_t> values = labels.to_vector<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < classes) continue;
    throw Error(
        fmt::format("cross_entropy: labels must be in [0, {}), one for each column of "
                    "logits, but the label of sample {} is {}",
                    classes, i, values[i]));
  }
}

void check_pair(std::string_view op, const char* x, const char* target, const Tensor& a,
                const Tensor& b) {
  const TensorSpec in[] = {a.spec(), b.spec()};
  InputCheck check(op, in, {x, target});
  check.floats();
  check.shape(1, a.shape(), std::string("the shape of ") + x);
  if (a.elements() == 0) check.fail("there must be at least one element");
}

// sign * 2 (x - target) dy
PointwiseGrad square_grad(double sign) {
  ScalarBuilder d(3);
  const int difference = d.sub(d.in(0), d.in(1));
  return {{0, 1, PointwiseGrad::kGradient},
          d.build(d.mul(d.mul(difference, d.value(2 * sign)), d.in(2)))};
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyParams params) {
  Tensor loss = apply1(std::make_shared<CrossEntropy>(params), {logits, labels});
  check_labels(labels, logits.shape()[1]);
  return loss;
}

Tensor mse(const Tensor& x, const Tensor& target) {
  check_pair("mse", "x", "target", x, target);
  ScalarBuilder y(2);
  const int difference = y.sub(y.in(0), y.in(1));
  return mean(pointwise("mse", y.build(y.mul(difference, difference)), {x, target},
                        {square_grad(1), square_grad(-1)}, compute_type(x.dtype())));
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets) {
  check_pair("bce_with_logits", "logits", "targets", logits, targets);
  ScalarBuilder y(2);
  const int z = y.in(0), t = y.in(1);
  const int linear = y.sub(y.push(ScalarOp::max, z, y.value(0)), y.mul(z, t));
  const int e = y.push(ScalarOp::exp, y.push(ScalarOp::neg, y.push(ScalarOp::abs, z)));
  const int loss = y.add(linear, y.push(ScalarOp::log, y.add(e, y.value(1))));

  ScalarBuilder dz(3);  // z, t, dy
  const int grad = dz.sub(dz.push(ScalarOp::sigmoid, dz.in(0)), dz.in(1));
  ScalarBuilder dt(2);  // z, dy
  return mean(pointwise("bce_with_logits", y.build(loss), {logits, targets},
                        {{{0, 1, PointwiseGrad::kGradient}, dz.build(dz.mul(grad, dz.in(2)))},
                         {{0, PointwiseGrad::kGradient},
                          dt.build(dt.push(ScalarOp::neg, dt.mul(dt.in(0), dt.in(1))))}},
                        compute_type(logits.dtype())));
}

}  // namespace tessera
