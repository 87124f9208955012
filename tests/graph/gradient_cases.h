// Functions that together call every op with a gradient, for tests that iterate over all of them.
#pragma once

#include "tessera/engine/pointwise.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/batch_norm.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/dropout.h"
#include "tessera/layers/ops/group_norm.h"
#include "tessera/layers/ops/layer_norm.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/reduce_max.h"
#include "tessera/layers/ops/scale_channels.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/layers/ops/softmax.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera::gradient_cases {

using Function = std::function<Tensor(const Tensors&)>;

// The outcome of gradients() of the gradient.
enum class Second { right, error };

struct Case {
  const char* name;
  Function f;
  Tensors inputs;
  Second second = Second::right;
};

inline Tensor positive(const Shape& shape, uint64_t key) {
  return random_uniform(shape, key, 0.5, 2, DType::f64);
}

inline Tensor labels() { return from_vector<int32_t>({3}, {2, 0, 3}); }

// Returns a random position for dropout.
inline Tensor position() { return from_vector<int64_t>({2}, {3, 0}); }

using In = const Tensors&;

// Created in each test, so that tests share no tensors.
struct Inputs {
  Tensor x = normal({3, 4}, 1), y = positive({3, 4}, 2), row = normal({4}, 3);
  Tensor image = normal({2, 5, 5, 4}, 4), filters = normal({6, 3, 3, 4}, 5);
  Tensor gamma = positive({4}, 6), beta = normal({4}, 7);
};

inline Function own(Tensor (*f)(const Tensor&)) {
  return [f](In t) { return f(t[0]); };
}

inline std::vector<Case> pointwise_cases() {
  const Inputs in;
  return {
      {"add", [](In t) { return t[0] + t[1]; }, {in.x, in.row}},
      {"sub", [](In t) { return t[0] - t[1]; }, {in.x, in.row}},
      {"mul", [](In t) { return t[0] * t[1]; }, {in.x, in.row}},
      {"div", [](In t) { return t[0] / t[1]; }, {in.x, in.y}},
      {"scalars", [](In t) { return (2.0 - (t[0] * 3.0 + 1.0) / 2.0) * (1.0 / t[0]); }, {in.y}},
      {"same input twice", [](In t) { return t[0] * t[0] * t[0]; }, {in.x}},
      {"exp", own(exp), {in.x}},
      {"log", own(log), {in.y}},
      {"sqrt", own(sqrt), {in.y}},
      {"sin", own(tessera::sin), {in.x}},
      {"cos", own(tessera::cos), {in.x}},
      {"abs", own(abs), {in.x}},
      {"maximum", [](In t) { return maximum(t[0], t[1]) * t[0]; }, {in.x, in.y}},
      {"minimum", [](In t) { return minimum(t[0], t[1]) * t[0]; }, {in.x, in.y}},
      {"clamp", [](In t) { return exp(clamp(t[0], -0.5, 0.5)); }, {in.x}},
      {"pow", [](In t) { return pow(t[0], 2.5) + pow(t[0], 1) + pow(t[0], 0); }, {in.y}},
      {"square", [](In t) { return pow(t[0], 2); }, {in.x}},
      {"pow of tensors", [](In t) { return pow(t[0], t[1]); }, {in.y, in.x}},
      {"where",
       [](In t) { return where(greater(t[0], t[1]), exp(t[0]), t[1] * t[2]); },
       {in.x, in.y, in.row}},
      {"relu", [](In t) { return relu(t[0]) * t[0]; }, {in.x}},
      {"relu6", [](In t) { return relu6(t[0]) * t[0]; }, {in.x}},
      {"gelu", own(gelu), {in.x}},
      {"gelu_tanh", own(gelu_tanh), {in.x}},
      {"silu", own(silu), {in.x}},
      {"sigmoid", own(sigmoid), {in.x}},
      {"hard_sigmoid", [](In t) { return hard_sigmoid(t[0]) * t[0]; }, {in.x}},
      {"hard_swish", own(hard_swish), {in.x}},
      {"leaky_relu", [](In t) { return leaky_relu(t[0], 0.2) * t[0]; }, {in.x}},
      {"prelu", [](In t) { return prelu(t[0], t[1]) * t[0]; }, {in.x, in.row}},
      {"elu", [](In t) { return elu(t[0], 0.7); }, {in.x}},
      {"mish", own(mish), {in.x}},
      {"tanh", own(tessera::tanh), {in.x}},
      {"bias", [](In t) { return exp(bias(t[0], t[1])); }, {in.image, in.beta}},
      {"scale_channels",
       [](In t) { return scale_channels(t[0], t[1]); },
       {in.image, normal({2, 4}, 13)}},
  };
}

// Returns cases of programs with one instruction, whose gradients are derived.
inline std::vector<Case> scalar_program_cases() {
  const Inputs in;
  const auto program = [](ScalarOp op, int inputs) {
    return [op, inputs](In t) {
      ScalarBuilder b(inputs);
      return pointwise(name_of(op), b.build(b.push(op, 0, std::min(1, inputs - 1), inputs - 1)), t);
    };
  };
  std::vector<Case> all;
  for (ScalarOp op : {ScalarOp::add, ScalarOp::sub, ScalarOp::mul, ScalarOp::div, ScalarOp::max,
                      ScalarOp::min, ScalarOp::pow})
    all.push_back({name_of(op), program(op, 2), {in.y, positive({4}, 14)}});
  for (ScalarOp op :
       {ScalarOp::neg, ScalarOp::abs, ScalarOp::exp, ScalarOp::log, ScalarOp::sqrt, ScalarOp::tanh,
        ScalarOp::sin, ScalarOp::cos, ScalarOp::erf, ScalarOp::sigmoid})
    all.push_back({name_of(op), program(op, 1), {in.y}});
  all.push_back({"select", program(ScalarOp::select, 3), {in.y, in.x, in.x + 1.0}});
  return all;
}

inline std::vector<Case> elementwise_cases() {
  std::vector<Case> all = pointwise_cases();
  for (Case& c : scalar_program_cases()) all.push_back(std::move(c));
  return all;
}

// Returns the inputs in a dtype; every `period`-th element of input k is NaN.
inline Tensors with_nan(const Tensors& inputs, size_t k, int64_t period, DType dtype) {
  Tensors changed;
  for (const Tensor& x : inputs) {
    std::vector<double> values = x.to_vector<double>();
    if (changed.size() == k)
      for (size_t i = 0; i < values.size(); i += static_cast<size_t>(period)) values[i] = NAN;
    changed.push_back(cast(from_vector(x.shape(), values), dtype));
  }
  return changed;
}

inline Tensor gathered(In t) {
  const Tensor index =
      from_vector<int32_t>({3, 5}, {0, 1, -1, 1, 3, 2, 2, 2, 0, 1, 3, -4, 1, 0, 2});
  return exp(gather(t[0], 1, index));
}

inline std::vector<Case> structural_cases() {
  const Inputs in;
  return {
      {"reshape",
       [](In t) {
         return exp(reshape(t[0], Shape{2, 6}));
       },
       {in.x}},
      {"rows", [](In t) { return exp(rows(t[0], 1, 3)); }, {in.x}},
      {"expand",
       [](In t) {
         return exp(expand(t[0], Shape{2, 3, 4}));
       },
       {in.x}},
      {"sum_to",
       [](In t) {
         return exp(sum_to(t[0], Shape{3, 1}));
       },
       {in.x}},
      {"copy", [](In t) { return exp(copy(t[0])); }, {in.x}},
      {"sum", [](In t) { return exp(sum(t[0], {0}, false)); }, {in.x}},
      {"mean", [](In t) { return exp(mean(t[0])); }, {in.x}},
      {"var", [](In t) { return exp(var(t[0], {0})) * var(t[0]); }, {in.x}},
      {"permute",
       [](In t) {
         return exp(permute(t[0], std::vector{2, 0, -3, -1}));
       },
       {in.image}},
      {"transpose", [](In t) { return matmul(transpose(t[0]), t[0]); }, {in.x}},
      {"gather", gathered, {in.x}},
      {"concat", [](In t) { return exp(concat(t)); }, {in.x, in.y}},
      {"stack", [](In t) { return exp(stack(t, -1)); }, {in.x, in.y}},
      {"slice", [](In t) { return exp(slice(t[0], 1, 0, 4, 2)); }, {in.x}},
      {"pad", [](In t) { return exp(pad(t[0], 0, 1, 2)); }, {in.x}},
      {"max", [](In t) { return exp(max(t[0], 1)); }, {spread({3, 5})}},
      {"min", [](In t) { return exp(min(t[0], -1, true)); }, {spread({3, 5})}},
  };
}

inline Tensor dropped_out(In t) {
  const Tensor at = position();
  const TrainingScope training;
  const RandomScope random(5, at);
  return exp(dropout(t[0], 0.3));
}

inline std::vector<Case> layer_cases() {
  const Inputs in;
  const Conv2dParams strided{.stride = 2, .padding = 1};
  const Tensor dy = normal({2, 3, 3, 6}, 8), many = normal({2, 1, 3, 4}, 15);
  return {
      {"conv2d", [=](In t) { return conv2d(t[0], t[1], strided); }, {in.image, in.filters}},
      {"conv2d_input_grad",
       [](In t) { return conv2d_input_grad(t[0], t[1], 5, {}); },
       {dy, in.filters}},
      {"conv2d_weight_grad",
       [](In t) { return conv2d_weight_grad(t[0], t[1], 3, {}); },
       {in.image, dy}},
      {"matmul", [](In t) { return matmul(t[0], t[1], {.transpose_a = true}); }, {in.x, in.y}},
      {"matmul of pairs",
       [](In t) { return matmul(t[0], t[1], {.transpose_b = true}); },
       {many, normal({3, 5, 4}, 16)}},
      {"matmul of many and one",
       [](In t) { return matmul(t[0], t[1]); },
       {many, normal({4, 5}, 16)}},
      {"matmul of vectors",
       [](In t) {
         return matmul(t[0], t[1]) * matmul(t[2], t[1]) + sum(matmul(t[2], transpose(t[0])));
       },
       {in.x, in.row, normal({4}, 17)}},
      {"linear",
       [](In t) { return linear(t[0], t[1], t[2]); },
       {in.x, normal({5, 4}, 10), normal({5}, 11)}},
      {"average_pool2d", [](In t) { return exp(average_pool2d(t[0], {.kernel = 2})); }, {in.image}},
      {"global_average_pool", [](In t) { return exp(global_average_pool(t[0])); }, {in.image}},
      {"shortcut",
       [](In t) { return exp(shortcut(t[0], {.stride = 2, .channels = 6})); },
       {in.image}},
      {"dropout", dropped_out, {in.x}},
      {"softmax", own(softmax), {in.x}},
      {"log_softmax", own(log_softmax), {in.x}},
      {"cross_entropy", [](In t) { return cross_entropy(t[0], labels(), {0.1}); }, {in.x}},
      {"cross_entropy of targets",
       [](In t) { return cross_entropy(t[0], t[1], {0.2}); },
       {in.x, in.y}},
      {"mse", [](In t) { return mse(t[0], t[1]); }, {in.x, in.y}},
      {"bce", [](In t) { return bce_with_logits(t[0], t[1]); }, {in.x, in.y}},
      {"max_pool2d",
       [](In t) { return exp(max_pool2d(t[0], {.kernel = 2}) * 0.5); },
       {spread({2, 6, 6, 2})},
       Second::error},
  };
}

inline std::vector<Case> norm_cases() {
  const Inputs in;
  // Buffers of a store, because a captured step updates them.
  const auto statistics = [](DType dtype) {
    const auto store = std::make_shared<Store>(1, dtype);
    store->buffer("mean", {4}, Initializer::zeros());
    store->buffer("variance", {4}, Initializer::ones());
    return store;
  };
  const auto batch = [exact = statistics(DType::f64),
                      wide = statistics(DType::f32)](bool training) {
    return [=](In t) {
      const TrainingScope scope(training);
      const Store& store = t[0].dtype() == DType::f64 ? *exact : *wide;
      return batch_norm(t[0], t[1], t[2], store.find("mean"), store.find("variance"),
                        {.momentum = 0});
    };
  };
  return {
      {"batch_norm in evaluation", batch(false), {in.image, in.gamma, in.beta}},
      {"batch_norm in training", batch(true), {in.image, in.gamma, in.beta}, Second::error},
      {"layer_norm",
       [](In t) { return layer_norm(t[0], t[1], t[2], {}); },
       {in.x, in.row, in.row + 1.0},
       Second::error},
      {"group_norm",
       [](In t) { return group_norm(t[0], t[1], t[2], {.groups = 2}); },
       {in.image, in.gamma, in.beta},
       Second::error},
  };
}

inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (auto part :
       {pointwise_cases, scalar_program_cases, structural_cases, layer_cases, norm_cases})
    for (Case& c : part()) all.push_back(std::move(c));
  return all;
}

inline Tensors leaves_of(const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(requires_grad(detach(copy(input))));
  return leaves;
}

// Returns the gradients of sum(u f(inputs)), with f called from eager code.
inline std::vector<std::vector<double>> slopes_of(const Function& f, const Tensors& inputs) {
  const Tensors leaves = leaves_of(inputs);
  const Tensor y = f(leaves);
  std::vector<std::vector<double>> values;
  for (const Tensor& slope : gradients(y, leaves, normal(y.shape(), 99)))
    values.push_back(slope.to_vector<double>());
  return values;
}

// Returns max |a - b| / max |a|, the largest of all results.
inline double distance(const std::vector<std::vector<double>>& a,
                       const std::vector<std::vector<double>>& b) {
  double worst = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    double difference = 0, largest = 1e-30;
    if (a[k].size() != b[k].size()) return INFINITY;
    for (size_t i = 0; i < a[k].size(); ++i) {
      difference = std::max(difference, std::abs(a[k][i] - b[k][i]));
      largest = std::max(largest, std::abs(a[k][i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return a.size() == b.size() ? worst : INFINITY;
}

// Returns the gradients of the function of inputs rounded to 16 bits, then its values.
inline std::vector<std::vector<double>> in_half(const Function& f, const Tensors& inputs,
                                                DType half) {
  Tensors all, wrt;
  for (const Tensor& x : inputs) {
    all.push_back(is_float(x.dtype()) ? requires_grad(cast(x, half)) : x);
    if (is_float(x.dtype())) wrt.push_back(all.back());
  }
  const Tensor y = f(all);
  Tensors results = gradients(y, wrt, cast(normal(y.shape(), 99), y.dtype()));
  results.push_back(y);
  std::vector<std::vector<double>> values;
  for (const Tensor& x : results) values.push_back(cast(detach(x), DType::f64).to_vector<double>());
  return values;
}

}  // namespace tessera::gradient_cases
