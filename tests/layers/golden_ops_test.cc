// Compares every op, forward and backward, with PyTorch's values: in float32 within 1e-5 of the
// largest value, in float64 within the rounding of the stored values.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/batch_norm.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/group_norm.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/layers/ops/layer_norm.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/layers/ops/local_response_norm.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/reduce_max.h"
#include "tessera/layers/ops/softmax.h"
#include "tessera/layers/optimizers/adamw.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/tests/golden/formula.h"
#include "tessera/tests/golden/golden_file.h"

namespace tessera {
namespace {

const golden::File& file() {
  static const golden::File opened(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/ops.h5");
  return opened;
}

// Returns floats of either precision or integers of any type.
template <class Values>
Tensor tensor_of(const std::vector<int64_t>& shape, const Values& values, DType dtype) {
  const auto make = [&]<class T>(T) {
    return from_vector(Shape(shape), std::vector<T>(values.begin(), values.end()));
  };
  if (dtype == DType::f64) return make(double{});
  if (dtype == DType::i32) return make(int32_t{});
  if (dtype == DType::u8) return make(uint8_t{});
  return make(float{});
}

// One group of the file.
struct Case {
  std::string name;
  DType dtype;  // the floating-point dtype

  bool has(const std::string& member) const { return file().has(name + "/" + member); }
  golden::Array array(const std::string& member) const { return file().read(name + "/" + member); }
  std::vector<double> settings(const std::string& key) const { return file().numbers(name, key); }
  double setting(const std::string& key) const { return file().number(name, key); }
  int64_t integer(const std::string& key) const { return static_cast<int64_t>(setting(key)); }

  Tensor from_spec(const std::string& key, DType integers) const {
    const golden::Spec spec = golden::parse_spec(file().text(name, key));
    if (spec.is_integer) return tensor_of(spec.shape, golden::integers(spec), integers);
    return tensor_of(spec.shape, golden::floats(spec), dtype);
  }
  Tensor input(int64_t i, DType integers) const {
    const std::string key = "in" + std::to_string(i);
    if (file().has_attribute(name, key)) return from_spec(key, integers);
    const golden::Array values = array(key);
    return tensor_of(values.shape, values.values, dtype);
  }
};

using Runner = std::function<Tensors(const Case&, const Tensors& in)>;

Runner unary(Tensor (*op)(const Tensor&)) {
  return [op](const Case&, const Tensors& in) { return Tensors{op(in[0])}; };
}

Tensors run_conv2d(const Case& c, const Tensors& in) {
  const auto size = [&](const std::string& key) {
    return Size2(c.integer(key + "_h"), c.integer(key + "_w"));
  };
  const Tensor y = conv2d(in[0], in[1],
                          {.stride = size("stride"),
                           .padding = size("padding"),
                           .dilation = size("dilation"),
                           .groups = c.integer("groups")});
  return {in.size() > 2 ? bias(y, in[2]) : y};
}

Tensors run_batch_norm(const Case& c, const Tensors& in) {
  TrainingScope training(c.integer("training") != 0);
  const Tensor mean = copy(in[3]), variance = copy(in[4]);
  const Tensor y = batch_norm(in[0], in[1], in[2], mean, variance,
                              {.eps = c.setting("epsilon"), .momentum = c.setting("momentum")});
  return {y, mean, variance};
}

Pool2dParams pool_params(const Case& c) {
  return {.kernel = c.integer("kernel"),
          .stride = c.integer("stride"),
          .padding = c.integer("padding"),
          .count_include_pad =
              !file().has_attribute(c.name, "count_include_pad") || c.integer("count_include_pad"),
          .ceil_mode = file().has_attribute(c.name, "round_up")};
}

std::vector<int> axes_of(const Case& c) {
  const auto axes = c.settings("axes");
  return {axes.begin(), axes.end()};
}

Tensors run_optimizer(const Case& c, const Tensors& in,
                      const std::function<std::unique_ptr<Optimizer>(Store&, Tensor)>& make,
                      const std::vector<std::string>& states) {
  Store store(1, c.dtype);
  const Tensor parameter = store.parameter("p", in[0].shape(), Initializer::zeros());
  const std::unique_ptr<Optimizer> optimizer = make(store, parameter);
  visit_float(c.dtype, [&](auto zero) {
    const auto start = in[0].to_vector<decltype(zero)>();
    Tensor(parameter).assign(std::span(start));
  });
  Tensors values;
  for (size_t step = 1; step < in.size(); ++step) {
    optimizer->step(std::vector{in[step]}, scalar(c.setting("lr"), DType::f64));
    values.push_back(copy(parameter));
  }
  for (const std::string& state : states) values.push_back(copy(store.find(state + ".p")));
  return values;
}

Tensors run_sgd(const Case& c, const Tensors& in) {
  const SgdParams settings{.momentum = c.setting("momentum"),
                           .nesterov = c.integer("nesterov") != 0,
                           .weight_decay = c.setting("weight_decay")};
  std::vector<std::string> states;
  if (settings.momentum != 0) states.push_back("optimizer.momentum");
  return run_optimizer(
      c, in,
      [&](Store& store, Tensor p) { return std::make_unique<Sgd>(store, Tensors{p}, settings); },
      states);
}

Tensors run_adamw(const Case& c, const Tensors& in) {
  const AdamWParams settings{.beta1 = c.setting("beta1"),
                             .beta2 = c.setting("beta2"),
                             .epsilon = c.setting("epsilon"),
                             .weight_decay = c.setting("weight_decay")};
  return run_optimizer(
      c, in,
      [&](Store& store, Tensor p) { return std::make_unique<AdamW>(store, Tensors{p}, settings); },
      {"optimizer.m", "optimizer.v"});
}

Tensors run_cross_entropy(const Case& c, const Tensors& in) {
  return {cross_entropy(in[0], in[1], {.label_smoothing = c.setting("label_smoothing")})};
}

using Runners = std::map<std::string, Runner>;

Runners runners_of_tensor_functions() {
  return {
      {"add", [](const Case&, const Tensors& in) { return Tensors{in[0] + in[1]}; }},
      {"mul", [](const Case&, const Tensors& in) { return Tensors{in[0] * in[1]}; }},
      {"scale",
       [](const Case& c, const Tensors& in) { return Tensors{in[0] * c.setting("factor")}; }},
      {"reshape",
       [](const Case& c, const Tensors& in) {
         return Tensors{reshape(in[0], Shape(c.array("out0").shape))};
       }},
      {"concat",
       [](const Case& c, const Tensors& in) {
         return Tensors{concat(in, static_cast<int>(c.integer("axis")))};
       }},
      {"normalize",
       [](const Case& c, const Tensors& in) {
         return Tensors{image_normalize(
             in[0], {.mean = c.settings("mean"), .stddev = c.settings("std"), .dtype = c.dtype})};
       }},
      {"min",
       [](const Case& c, const Tensors& in) {
         const auto axis = static_cast<int>(c.integer("axis"));
         return Tensors{min(in[0], axis), argmin(in[0], axis)};
       }},
      {"pow",
       [](const Case& c, const Tensors& in) { return Tensors{pow(in[0], c.setting("exponent"))}; }},
      {"pow_of", [](const Case&, const Tensors& in) { return Tensors{pow(in[0], in[1])}; }},
      {"minimum", [](const Case&, const Tensors& in) { return Tensors{minimum(in[0], in[1])}; }},
      {"maximum", [](const Case&, const Tensors& in) { return Tensors{maximum(in[0], in[1])}; }},
      {"clamp",
       [](const Case& c, const Tensors& in) {
         return Tensors{clamp(in[0], c.setting("low"), c.setting("high"))};
       }},
      {"where",
       [](const Case& c, const Tensors& in) {
         return Tensors{where(greater(in[0], c.setting("bound")), in[1], in[2])};
       }},
      {"permute",
       [](const Case& c, const Tensors& in) { return Tensors{permute(in[0], axes_of(c))}; }},
      {"gather",
       [](const Case& c, const Tensors& in) {
         return Tensors{gather(in[0], static_cast<int>(c.integer("axis")), in[1])};
       }},
      {"one_hot",
       [](const Case& c, const Tensors& in) {
         return Tensors{one_hot(in[0], c.integer("classes"), c.dtype)};
       }},
      {"stack",
       [](const Case& c, const Tensors& in) {
         return Tensors{stack(in, static_cast<int>(c.integer("axis")))};
       }},
  };
}

Runners runners_of_activations() {
  return {
      {"relu", unary(relu)},
      {"gelu", unary(gelu)},
      {"gelu_tanh", unary(gelu_tanh)},
      {"silu", unary(silu)},
      {"sigmoid", unary(sigmoid)},
      {"tanh", unary(tanh)},
      {"hard_sigmoid", unary(hard_sigmoid)},
      {"hard_swish", unary(hard_swish)},
      {"leaky_relu",
       [](const Case& c, const Tensors& in) {
         return Tensors{leaky_relu(in[0], c.setting("slope"))};
       }},
      {"prelu", [](const Case&, const Tensors& in) { return Tensors{prelu(in[0], in[1])}; }},
      {"elu",
       [](const Case& c, const Tensors& in) { return Tensors{elu(in[0], c.setting("alpha"))}; }},
      {"mish", unary(mish)},
  };
}

Runners runners_of_layers() {
  return {
      {"conv2d", run_conv2d},
      {"matmul",
       [](const Case& c, const Tensors& in) {
         return Tensors{matmul(in[0], in[1],
                               {.transpose_a = c.integer("transpose_a") != 0,
                                .transpose_b = c.integer("transpose_b") != 0})};
       }},
      {"linear",
       [](const Case&, const Tensors& in) { return Tensors{linear(in[0], in[1], in[2])}; }},
      {"bias", [](const Case&, const Tensors& in) { return Tensors{bias(in[0], in[1])}; }},
      {"batch_norm", run_batch_norm},
      {"layer_norm",
       [](const Case& c, const Tensors& in) {
         return Tensors{layer_norm(in[0], in[1], in[2], {.eps = c.setting("epsilon")})};
       }},
      {"group_norm",
       [](const Case& c, const Tensors& in) {
         return Tensors{group_norm(in[0], in[1], in[2],
                                   {.groups = c.integer("groups"), .eps = c.setting("epsilon")})};
       }},
      {"max_pool",
       [](const Case& c, const Tensors& in) { return Tensors{max_pool2d(in[0], pool_params(c))}; }},
      {"avg_pool",
       [](const Case& c, const Tensors& in) {
         return Tensors{average_pool2d(in[0], pool_params(c))};
       }},
      {"global_avg_pool", unary(global_average_pool)},
      {"adaptive_max_pool",
       [](const Case& c, const Tensors& in) {
         return Tensors{adaptive_max_pool2d(in[0], {c.integer("out_h"), c.integer("out_w")})};
       }},
      {"adaptive_avg_pool",
       [](const Case& c, const Tensors& in) {
         return Tensors{adaptive_average_pool2d(in[0], {c.integer("out_h"), c.integer("out_w")})};
       }},
      {"channel_shuffle",
       [](const Case& c, const Tensors& in) {
         return Tensors{channel_shuffle(in[0], c.integer("groups"))};
       }},
      {"local_response_norm",
       [](const Case& c, const Tensors& in) {
         return Tensors{local_response_norm(in[0], {.size = c.integer("size"),
                                                    .alpha = c.setting("alpha"),
                                                    .beta = c.setting("beta"),
                                                    .k = c.setting("k")})};
       }},
      {"softmax", unary(softmax)},
      {"log_softmax", unary(log_softmax)},
      {"cross_entropy", run_cross_entropy},
      {"cross_entropy_soft", run_cross_entropy},
      {"mse", [](const Case&, const Tensors& in) { return Tensors{mse(in[0], in[1])}; }},
      {"bce_with_logits",
       [](const Case&, const Tensors& in) { return Tensors{bce_with_logits(in[0], in[1])}; }},
      {"sum", [](const Case& c, const Tensors& in) { return Tensors{sum(in[0], axes_of(c))}; }},
      {"mean", [](const Case& c, const Tensors& in) { return Tensors{mean(in[0], axes_of(c))}; }},
      {"max",
       [](const Case& c, const Tensors& in) {
         const auto axis = static_cast<int>(c.integer("axis"));
         return Tensors{max(in[0], axis), argmax(in[0], axis)};
       }},
      {"sgd", run_sgd},
      {"adamw", run_adamw},
  };
}

const Runners& runners() {
  static const Runners all = [] {
    Runners all_of = runners_of_layers();
    all_of.merge(runners_of_activations());
    all_of.merge(runners_of_tensor_functions());
    return all_of;
  }();
  return all;
}

void expect_near(const Tensor& made, const golden::Array& wanted, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(made.shape(), Shape(wanted.shape)) << what;
  const auto values = cast(made, DType::f64).to_vector<double>();
  double largest = 0, apart = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(wanted.values[i]));
    const double distance = std::abs(values[i] - wanted.values[i]);
    apart = distance <= apart ? apart : distance;  // keeps a NaN
  }
  EXPECT_LE(apart, tolerance * (largest > 0 ? largest : 1)) << what << ", largest " << largest;
}

void run_case(const Case& c, const Runner& run, double tolerance) {
  const DType integers = c.name.starts_with("normalize/") ? DType::u8 : DType::i32;
  Tensors in, wrt;
  std::vector<int64_t> differentiated;
  for (int64_t i = 0; i < c.integer("inputs"); ++i) {
    in.push_back(c.input(i, integers));
    if (!c.has("grad" + std::to_string(i))) continue;
    in.back() = requires_grad(in.back());
    wrt.push_back(in.back());
    differentiated.push_back(i);
  }
  const Tensors out = run(c, in);
  for (size_t i = 0; c.has("out" + std::to_string(i)); ++i) {
    ASSERT_LT(i, out.size()) << c.name;
    const std::string key = "out" + std::to_string(i);
    expect_near(out[i], c.array(key), tolerance, c.name + "/" + key);
  }
  if (wrt.empty()) return;
  const Tensors grads = gradients(out[0], wrt, c.from_spec("up0", integers));
  for (size_t i = 0; i < wrt.size(); ++i) {
    const std::string key = "grad" + std::to_string(differentiated[i]);
    expect_near(grads[i], c.array(key), tolerance, c.name + "/" + key);
  }
}

class GoldenOps : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOps, Float32IsWithin1e5OfPyTorch) {
  const auto cases = file().members(GetParam());
  ASSERT_FALSE(cases.empty());
  for (const std::string& name : cases) {
    run_case({GetParam() + "/" + name, DType::f32}, runners().at(GetParam()), 1e-5);
  }
}

TEST_P(GoldenOps, Float64IsWithinTheRoundingOfTheFigures) {
  for (const std::string& name : file().members(GetParam())) {
    run_case({GetParam() + "/" + name, DType::f64}, runners().at(GetParam()), 1e-7);
  }
}

// Returns the largest |made - wanted| beyond one unit in the last place of 16 bits, as a share of
// the largest |wanted|.
double beyond_one_unit(const Tensor& made, const Tensor& wanted, int precision) {
  const auto a = cast(made, DType::f64).to_vector<double>(), b = wanted.to_vector<double>();
  double largest = 1e-30, apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int exponent = 0;
    std::frexp(b[i], &exponent);
    const double distance =
        std::abs(a[i] - b[i]) - (is_half(made.dtype()) ? std::ldexp(1.0, exponent - precision) : 0);
    largest = std::max(largest, std::abs(b[i]));
    apart = distance <= apart ? apart : distance;
  }
  return apart / largest;
}

// Compares an op on inputs of 16 bits with the op in float64 on the same numbers. A gradient, and a
// convolution with bias, is made of several ops, each of which rounds.
void run_in_half(const Case& c, const Runner& run, DType half) {
  const DType integers = c.name.starts_with("normalize/") ? DType::u8 : DType::i32;
  const int precision = half == DType::bf16 ? 8 : 11;
  const auto all = [&](DType dtype, Tensors& out, Tensors& grads) {
    const Case same{c.name, dtype};
    const auto rounded = [&](const Tensor& x) {
      return is_float(x.dtype()) ? cast(cast(x, half), dtype) : x;
    };
    Tensors in, wrt;
    for (int64_t i = 0; i < c.integer("inputs"); ++i) {
      in.push_back(rounded(c.input(i, integers)));
      if (!c.has("grad" + std::to_string(i))) continue;
      in.back() = requires_grad(in.back());
      wrt.push_back(in.back());
    }
    out = run(same, in);
    if (wrt.empty()) return;
    const Tensor upstream = rounded(c.from_spec("up0", integers));
    grads = gradients(out[0], wrt, cast(upstream, out[0].dtype()));
  };
  Tensors exact, exact_grads, out, grads;
  all(DType::f64, exact, exact_grads);
  all(half, out, grads);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!is_float(out[i].dtype())) continue;
    const double beyond = c.name == "conv2d/with_bias" ? std::ldexp(1.0, -precision) : 0x1p-18;
    EXPECT_LE(beyond_one_unit(out[i], exact[i], precision), beyond) << c.name << " out" << i;
  }
  for (size_t i = 0; i < grads.size(); ++i)
    EXPECT_LE(beyond_one_unit(grads[i], exact_grads[i], precision), std::ldexp(2.0, -precision))
        << c.name << " grad" << i;
}

TEST_P(GoldenOps, SixteenBitsAreFloat64RoundedOnce) {
  if (GetParam() == "sgd" || GetParam() == "adamw") return;  // parameters are float32
  for (const std::string& name : file().members(GetParam()))
    for (const DType half : {DType::bf16, DType::f16})
      run_in_half({GetParam() + "/" + name, DType::f64}, runners().at(GetParam()), half);
}

std::vector<std::string> runner_names() {
  std::vector<std::string> names;
  for (const auto& [name, run] : runners()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, GoldenOps, testing::ValuesIn(runner_names()),
                         [](const auto& named) { return named.param; });

TEST(GoldenFile, EveryOpInItHasARunner) {
  for (const std::string& op : file().members("/")) {
    EXPECT_TRUE(op == "formula" || runners().count(op) == 1) << op;
  }
}

TEST(GoldenFile, TheFormulaGivesTheSameBitsAsWhenItWasMade) {
  for (const std::string& name : file().members("formula")) {
    const golden::Spec spec = golden::parse_spec(file().text("formula/" + name, "in0"));
    const std::vector<double> wanted = file().read("formula/" + name + "/out0").values;
    if (spec.is_integer) {
      const auto made = golden::integers(spec);
      EXPECT_EQ(std::vector<double>(made.begin(), made.end()), wanted) << name;
    } else {
      const auto made = golden::floats(spec);
      EXPECT_EQ(std::vector<double>(made.begin(), made.end()), wanted) << name;
    }
  }
}

}  // namespace
}  // namespace tessera
