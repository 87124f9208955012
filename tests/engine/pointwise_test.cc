#include "tessera/engine/pointwise.h"

#include <cmath>

#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

// Returns values away from kinks and poles.
Tensor positive(const Shape& shape, uint64_t key) {
  return random_uniform(shape, key, 0.5, 2, DType::f64);
}

TEST(Autograd, EveryElementwiseFunctionMatchesFiniteDifferences) {
  Tensors two{positive({3, 4, 5}, 1), positive({3, 4, 5}, 2)};
  auto check = [&](const char* name, auto f) {
    auto result = check_gradients([&](const Tensors& x) { return f(x[0], x[1]); }, two);
    EXPECT_TRUE(result) << name << "\n" << result.report;
  };
  check("add", [](Tensor a, Tensor b) { return a + b; });
  check("sub", [](Tensor a, Tensor b) { return a - b; });
  check("mul", [](Tensor a, Tensor b) { return a * b; });
  check("div", [](Tensor a, Tensor b) { return a / b; });
  check("scalars",
        [](Tensor a, Tensor b) { return 2.0 / (a * 3.0 + 1.0) - (b - 0.5) / 4.0 + (1.0 - b); });
  check("exp log", [](Tensor a, Tensor b) { return exp(a) * log(b); });
  check("sqrt abs", [](Tensor a, Tensor b) { return sqrt(a) * abs(-b); });
  check("maximum", [](Tensor a, Tensor b) { return maximum(a, b); });
}

TEST(Autograd, BroadcastGradientsAreSummed) {
  for (auto [a, b] : {std::pair<Shape, Shape>{{2, 3, 4}, {4}},
                      {{2, 3, 4}, {3, 1}},
                      {{2, 3, 4}, {}},
                      {{2, 1, 4}, {3, 1}},
                      {{4, 1}, {1, 5}},
                      {{2, 3, 4}, {2, 1, 4}}}) {
    auto result =
        check_gradients([](const Tensors& x) { return x[0] * x[1]; }, {normal(a, 3), normal(b, 4)});
    EXPECT_TRUE(result) << a.text() << b.text() << "\n" << result.report;
  }
}

// Kernels are cached for equal ops, and precompiled code is used for equal programs.
TEST(Pointwise, ZerosOfBothSignsAreTwoConstants) {
  const Tensor x = from_vector<float>({2}, {0, -0.0f});
  const auto negative = [](const Tensor& y) {
    const std::vector<float> values = y.to_vector<float>();
    return std::vector<bool>{std::signbit(values[0]), std::signbit(values[1])};
  };
  EXPECT_EQ(negative(x + 0.0), (std::vector<bool>{false, false}));
  EXPECT_EQ(negative(x + -0.0), (std::vector<bool>{false, true}));
  const auto at_least = [&](double bound) {
    ScalarBuilder b(1);
    return pointwise("at_least", b.build(b.push(ScalarOp::max, 0, b.value(bound))), {x});
  };
  EXPECT_EQ(negative(at_least(0)), (std::vector<bool>{false, false}));
  EXPECT_EQ(negative(at_least(-0.0)), (std::vector<bool>{true, true}));
  EXPECT_EQ(negative(full({2}, 0)), (std::vector<bool>{false, false}));
  EXPECT_EQ(negative(full({2}, -0.0)), (std::vector<bool>{true, true}));
}

}  // namespace
}  // namespace tessera
