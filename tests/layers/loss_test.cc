#include "tessera/layers/ops/loss.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/gradient_check.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(Mse, IsTheMeanSquareOfTheDifference) {
  const Tensor x = from_vector<float>({2, 2}, {1, 2, 3, 4}),
               t = from_vector<float>({2, 2}, {1, 0, 3, 1});
  EXPECT_FLOAT_EQ(mse(x, t).item<float>(), (4 + 9) / 4.0f);
}

TEST(Mse, GradientsOfBothArguments) {
  const auto result = check_gradients(
      [](const Tensors& t) { return mse(t[0], t[1]); },
      {random_normal({3, 5}, 1, 0, 1, DType::f64), random_normal({3, 5}, 2, 0, 1, DType::f64)});
  EXPECT_TRUE(result) << result.report;
}

TEST(BceWithLogits, FollowsItsFormula) {
  const Tensor z = random_normal({4, 9}, 1, 0, 3, DType::f64);
  const Tensor t = random_uniform({4, 9}, 2, 0, 1, DType::f64);
  const auto zs = z.to_vector<double>(), ts = t.to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < zs.size(); ++i) {
    const double p = 1 / (1 + std::exp(-zs[i]));
    sum -= ts[i] * std::log(p) + (1 - ts[i]) * std::log(1 - p);
  }
  EXPECT_NEAR(bce_with_logits(z, t).item<double>(), sum / 36, 1e-12);
  EXPECT_FLOAT_EQ(
      bce_with_logits(from_vector<float>({2}, {500, -500}), from_vector<float>({2}, {0, 0}))
          .item<float>(),
      250.0f);
}

TEST(BceWithLogits, GradientsOfBothArguments) {
  const auto result = check_gradients(
      [](const Tensors& t) { return bce_with_logits(t[0], t[1]); },
      {random_normal({3, 5}, 3, 0, 2, DType::f64), random_uniform({3, 5}, 4, 0, 1, DType::f64)});
  EXPECT_TRUE(result) << result.report;
}

template <class F>
std::string message_of(F call) {
  try {
    call();
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "no ShapeError";
}

TEST(Loss, ShapesThatDoNotFitAreExplained) {
  EXPECT_EQ(
      message_of([] {
        mse(zeros({2, 3}), zeros({3}));
      }),
      "mse: target must be [2x3] (the shape of x), but is [3] (x float32[2x3], target float32[3])");
  EXPECT_EQ(message_of([] { mse(zeros({0}), zeros({0})); }),
            "mse: there must be at least one element (x float32[0], target float32[0])");
  EXPECT_EQ(message_of([] { bce_with_logits(zeros({2}), zeros({2}, DType::i32)); }),
            "bce_with_logits: targets must be floating point, but is int32; use cast() (logits "
            "float32[2], targets int32[2])");
}

}  // namespace
}  // namespace tessera
