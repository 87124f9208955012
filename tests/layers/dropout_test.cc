#include "tessera/layers/ops/dropout.h"

#include <cmath>

#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

Tensor position(int64_t step, int64_t sample) { return from_vector<int64_t>({2}, {step, sample}); }

std::vector<float> dropped(const Tensor& x, double p, int64_t step, int64_t sample,
                           uint64_t seed = 7) {
  TrainingScope training;
  const Tensor at = position(step, sample);
  RandomScope random(seed, at);
  return dropout(x, p).to_vector<float>();
}

TEST(Dropout, KeepsAShareAndScalesIt) {
  const auto y = dropped(ones({50, 999}), 0.3, 0, 0);
  double kept = 0;
  for (float value : y) {
    EXPECT_TRUE(value == 0 || value == static_cast<float>(1 / 0.7));
    kept += value != 0;
  }
  const double n = static_cast<double>(y.size());
  EXPECT_NEAR(kept / n, 0.7, 5 * std::sqrt(0.3 * 0.7 / n));
}

TEST(Dropout, IsTheIdentityInEvaluation) {
  const Tensor x = normal({3, 4}, 1);
  expect_near(dropout(x, 0.9), x.to_vector<double>(), 0);
}

TEST(Dropout, DependsOnStepSeedAndCall) {
  const Tensor x = ones({4, 100});
  EXPECT_EQ(dropped(x, 0.5, 3, 8), dropped(x, 0.5, 3, 8));
  EXPECT_NE(dropped(x, 0.5, 3, 8), dropped(x, 0.5, 4, 8));
  EXPECT_NE(dropped(x, 0.5, 3, 8), dropped(x, 0.5, 3, 8, 9));
  TrainingScope training;
  const Tensor at = position(0, 0);
  RandomScope random(7, at);
  EXPECT_NE(dropout(x, 0.5).to_vector<float>(), dropout(x, 0.5).to_vector<float>());
}

TEST(Dropout, SplittingABatchChangesNothing) {
  const Tensor x = normal({10, 3, 7}, 1, DType::f32);
  const auto together = dropped(x, 0.5, 2, 100);
  std::vector<float> parts = dropped(rows(x, 0, 4), 0.5, 2, 100);
  for (float value : dropped(rows(x, 4, 10), 0.5, 2, 104)) parts.push_back(value);
  EXPECT_EQ(together, parts);
}

TEST(Dropout, TheGradientGoesWhereTheValuesWent) {
  TrainingScope training;
  const Tensor at = position(5, 2);
  const Tensor x = requires_grad(normal({6, 37}, 1));
  RandomScope random(7, at);
  const Tensor y = dropout(x, 0.25);
  const Tensor dx = gradients(y, std::span(&x, 1), ones({6, 37}, DType::f64))[0];
  expect_near(dx * x, y.to_vector<double>(), 1e-12);
}

TEST(Dropout, ErrorsExplain) {
  TrainingScope training;
  EXPECT_EQ(message_of([] {
              dropout(zeros({2, 3}), 1);
            }),
            "dropout: p must be in [0, 1), but is 1 (x float32[2x3])");
  EXPECT_THROW(dropout(zeros({2, 3}), 0.5), Error);  // no RandomScope
}

}  // namespace
}  // namespace tessera
