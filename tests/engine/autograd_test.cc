#include "tessera/engine/autograd.h"

#include <gtest/gtest.h>

#include "tessera/engine/eager.h"
#include "tessera/engine/gradient_check.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

Tensor normal(const Shape& shape, uint64_t key) {
  return random_normal(shape, key, 0, 1, DType::f64);
}

// Away from kinks and poles.
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
  check("scalars", [](Tensor a, Tensor b) { return 2.0 / (a * 3.0 + 1.0) - (b - 0.5) / 4.0 + (1.0 - b); });
  check("exp log", [](Tensor a, Tensor b) { return exp(a) * log(b); });
  check("sqrt abs", [](Tensor a, Tensor b) { return sqrt(a) * abs(-b); });
  check("maximum", [](Tensor a, Tensor b) { return maximum(a, b); });
}

TEST(Autograd, BroadcastGradientsAreSummed) {
  for (auto [a, b] : {std::pair<Shape, Shape>{{2, 3, 4}, {4}}, {{2, 3, 4}, {3, 1}}, {{2, 3, 4}, {}},
                      {{2, 1, 4}, {3, 1}}, {{4, 1}, {1, 5}}, {{2, 3, 4}, {2, 1, 4}}}) {
    auto result = check_gradients([](const Tensors& x) { return x[0] * x[1]; },
                                  {normal(a, 3), normal(b, 4)});
    EXPECT_TRUE(result) << a.text() << b.text() << "\n" << result.report;
  }
}

TEST(Autograd, StructuralOps) {
  Tensor x = normal({4, 3, 2}, 5);
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return reshape(t[0], {6, 4}); }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return rows(t[0], 1, 3) * 2.0; }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return sum_to(t[0], {3, 1}); }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return mean(t[0]) * t[0]; }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return expand(t[0], {5, 4, 3, 2}); }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return copy(t[0]) * t[0]; }, {x}));
}

TEST(Autograd, SumsAndMeansOverAxes) {
  const Tensor x = normal({2, 3, 4}, 5);
  EXPECT_EQ(sum(x, {1}).shape(), Shape({2, 4}));
  EXPECT_EQ(mean(x, {0, -1}, true).shape(), Shape({1, 3, 1}));
  EXPECT_EQ(sum(x, {}).shape(), x.shape());
  EXPECT_NEAR(sum(mean(x, {1, 2})).item<double>() * 12, sum(x).item<double>(), 1e-12);
  for (const std::vector<int>& axes : {std::vector{0}, {1}, {-1}, {0, 2}, {2, 1, 0}}) {
    EXPECT_TRUE(check_gradients([&](const Tensors& t) { return sum(t[0], axes); }, {x}));
    EXPECT_TRUE(check_gradients([&](const Tensors& t) { return mean(t[0], axes, true); }, {x}));
  }
  EXPECT_THROW(sum(x, {3}), ShapeError);
  EXPECT_THROW(sum(x, {1, -2}), ShapeError);
}

TEST(Autograd, AWrongGradientIsCaught) {
  ScalarBuilder b(1), g(2);
  ScalarProgram square = b.build(b.mul(0, 0));
  // x * dy, where 2 * x * dy is right.
  PointwiseGrad wrong{{PointwiseGrad::kGradient, 0}, g.build(g.mul(0, 1))};
  auto result = check_gradients(
      [&](const Tensors& t) { return pointwise("square", square, {t[0]}, {wrong}); },
      {normal({3}, 6)});
  EXPECT_FALSE(result);
  EXPECT_NE(result.report.find("furthest at element"), std::string::npos);
}

TEST(Autograd, OverwrittenValuesAreAnErrorNotAWrongNumber) {
  Store store(1);
  Tensor w = store.parameter("w", {3}, Initializer::ones());
  Tensor loss = sum(w * w);
  w.assign<float>(std::vector<float>{1, 2, 3});
  try {
    gradients(loss, Tensors{w});
    FAIL() << "went backward through an overwritten value";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("overwritten"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("w float32[3]"), std::string::npos) << error.what();
  }
}

TEST(Autograd, TheTapeIsLetGo) {
  Tensor x = tracked(normal({1000}, 7));
  Tensor y = sum(exp(x) * x);
  gradients(y, Tensors{x});
  EXPECT_THROW(gradients(y, Tensors{x}), Error);
}

TEST(Autograd, UnusedLeavesHaveZeroGradients) {
  Tensor x = tracked(normal({2}, 8)), y = tracked(normal({2}, 9));
  Tensors grads = gradients(sum(x), Tensors{x, y});
  EXPECT_EQ(grads[0].to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(grads[1].to_vector<double>(), (std::vector<double>{0, 0}));
}

TEST(Autograd, BadCallsExplain) {
  Tensor x = tracked(normal({2}, 8));
  EXPECT_THROW(gradients(x, Tensors{x}), ShapeError);
  EXPECT_THROW(gradients(sum(x), Tensors{normal({2}, 8)}), Error);
  EXPECT_THROW(normal({2}, 1) + normal({3}, 1), ShapeError);
  EXPECT_THROW(normal({2}, 1) + full({2}, 1.0), ShapeError);
  EXPECT_THROW(Tensor() + full({2}, 1.0), Error);
  EXPECT_THROW(normal({2}, 1).item<double>(), ShapeError);
}

TEST(Eager, TensorsGiveTheirBytesBackAtOnce) {
  size_t before = eager_allocator(Device{}).statistics().live_bytes;
  {
    Tensor x = full({1000}, 1.0);
    EXPECT_EQ(eager_allocator(Device{}).statistics().live_bytes, before + 4000);
  }
  EXPECT_EQ(eager_allocator(Device{}).statistics().live_bytes, before);
}

TEST(Tensor, PrintsLikeNumpy) {
  EXPECT_EQ(arange(4).text(), "[0, 1, 2, 3]");
  EXPECT_EQ(reshape(arange(4, DType::i32), {2, 2}).text(), "[[0, 1],\n [2, 3]]");
  EXPECT_EQ(scalar(2.5).text(), "2.5");
  EXPECT_NE(zeros({2000}).text().find("..."), std::string::npos);
}

TEST(Store, ValuesDependOnSeedAndNameAlone) {
  auto values = [](uint64_t seed, bool reversed) {
    Store store(seed);
    if (reversed) store.parameter("b", {4}, Initializer::normal(1));
    Tensor a = store.parameter("a", {4}, Initializer::normal(1));
    return a.to_vector<float>();
  };
  EXPECT_EQ(values(1, false), values(1, true));
  EXPECT_NE(values(1, false), values(2, false));
}

}  // namespace
}  // namespace tessera
