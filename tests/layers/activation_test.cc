#include "tessera/layers/ops/activation.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/gradient_check.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

struct Case {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*formula)(double);
};

const Case kCases[] = {
    {"relu", relu, [](double x) { return x > 0 ? x : 0; }},
    {"relu6", relu6, [](double x) { return std::min(std::max(x, 0.0), 6.0); }},
    {"gelu", gelu, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
    {"gelu_tanh", gelu_tanh,
     [](double x) {
       return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x)));
     }},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"tanh", tanh, [](double x) { return std::tanh(x); }},
    {"hard_sigmoid", hard_sigmoid,
     [](double x) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
    {"hard_swish", hard_swish,
     [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); },
     [](double x) { return x > 0 ? x : 0.2 * x; }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, -0.5); },
     [](double x) { return x > 0 ? x : -0.5 * x; }},
    {"elu", [](const Tensor& x) { return elu(x, 1.5); },
     [](double x) { return x > 0 ? x : 1.5 * (std::exp(x) - 1); }},
    {"mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
};

TEST(Activation, FollowsItsFormula) {
  for (const Case& c : kCases) {
    const Tensor x = random_normal({7, 13}, 1, 0, 4, DType::f64);
    const auto in = x.to_vector<double>(), out = c.op(x).to_vector<double>();
    const auto narrow = c.op(cast(x, DType::f32)).to_vector<float>();
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_NEAR(out[i], c.formula(in[i]), 1e-13) << c.name << " at " << in[i];
      EXPECT_NEAR(narrow[i], c.formula(in[i]), 2e-6) << c.name << " at " << in[i];
    }
  }
}

TEST(Activation, GradientsMatchFiniteDifferences) {
  for (const Case& c : kCases) {
    // Inputs away from the kink of relu.
    const Tensor x = random_uniform({3, 5, 7}, 2, 0.1, 3, DType::f64);
    for (const Tensor& at : {x, -x}) {
      const auto result = check_gradients([&](const Tensors& t) { return c.op(t[0]); }, {at});
      EXPECT_TRUE(result) << c.name << "\n" << result.report;
    }
  }
}

TEST(Activation, StaysFiniteFarOut) {
  const Tensor far = from_vector<float>({4}, {-1000, -100, 100, 1000});
  for (const Case& c : kCases) {
    const Tensor x = requires_grad(far);
    const Tensor y = c.op(x);
    for (float value : y.to_vector<float>()) EXPECT_TRUE(std::isfinite(value)) << c.name;
    for (float slope : gradients(y, std::vector{x}, ones({4}))[0].to_vector<float>()) {
      EXPECT_TRUE(std::isfinite(slope)) << c.name;
    }
  }
}

TEST(Activation, ReluHasNoSlopeAtZero) {
  const Tensor x = requires_grad(from_vector<float>({3}, {-1, 0, 1}));
  const Tensor dx = gradients(relu(x), std::vector{x}, ones({3}))[0];
  EXPECT_EQ(dx.to_vector<float>(), (std::vector<float>{0, 0, 1}));
}

TEST(Activation, Relu6HasNoSlopeAtItsEnds) {
  const Tensor x = requires_grad(from_vector<float>({5}, {-1, 0, 3, 6, 7}));
  const Tensor dx = gradients(relu6(x), std::vector{x}, ones({5}))[0];
  EXPECT_EQ(dx.to_vector<float>(), (std::vector<float>{0, 0, 1, 0, 0}));
}

// PyTorch does the same.
TEST(Activation, ReluAndRelu6PassTheGradientAtNan) {
  for (const auto op : {relu, relu6}) {
    const Tensor x = requires_grad(from_vector<double>({3}, {NAN, NAN, -1}));
    const Tensor dy = from_vector<double>({3}, {2, NAN, 3});
    const auto slope = gradients(op(x), std::span(&x, 1), dy)[0].to_vector<double>();
    EXPECT_EQ(slope[0], 2);
    EXPECT_TRUE(std::isnan(slope[1]));
    EXPECT_EQ(slope[2], 0);
  }
}

TEST(Activation, TheHardOnesHaveNoSlopeBeyondThree) {
  const Tensor x = requires_grad(from_vector<float>({5}, {-4, -3, 0, 3, 4}));
  const auto slopes = [&](const Tensor& y) {
    return gradients(y, std::vector{x}, ones({5}))[0].to_vector<float>();
  };
  EXPECT_EQ(slopes(hard_sigmoid(x)), (std::vector<float>{0, 0, 1.0f / 6, 0, 0}));
  EXPECT_EQ(slopes(hard_swish(x)), (std::vector<float>{0, 0, 0.5f, 1, 1}));
}

TEST(Activation, PreluBendsEachChannelByItsOwnSlope) {
  const Tensor x = from_vector<double>({2, 3}, {-1, 2, -3, 4, -5, 6});
  expect_near(prelu(x, from_vector<double>({3}, {0.5, 0.1, 2})), {-0.5, 2, -6, 4, -0.5, 6});
  expect_near(prelu(x, from_vector<double>({1}, {0.5})), {-0.5, 2, -1.5, 4, -2.5, 6});
  const Tensor away = random_uniform({2, 3, 5}, 2, 0.1, 3, DType::f64);
  for (const Tensor& at : {away, -away})
    for (const Shape& slopes : {Shape{5}, Shape{1}})
      expect_gradients([](const Tensors& in) { return prelu(in[0], in[1]); },
                       {at, normal(slopes, 3)});
}

TEST(Activation, PreluWantsASlopeForEachChannel) {
  EXPECT_EQ(message_of([] {
              prelu(zeros({2, 3}), zeros({2}));
            }),
            "prelu: slope must be one number, or one for each channel of x (x float32[2x3], slope "
            "float32[2])");
}

TEST(Activation, RefusesIntegers) {
  for (const Case& c : kCases) {
    try {
      c.op(zeros({3}, DType::i32));
      ADD_FAILURE() << c.name;
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find(c.name), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tessera
