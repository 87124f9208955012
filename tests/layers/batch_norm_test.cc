#include "tessera/layers/ops/batch_norm.h"

#include <cmath>

#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tape.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/runtime/context.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

struct Vectors {
  Tensor gamma, beta, mean, var;
  explicit Vectors(int64_t c, DType dtype = DType::f64)
      : gamma(normal({c}, 11, dtype)),
        beta(normal({c}, 12, dtype)),
        mean(zeros({c}, dtype)),
        var(ones({c}, dtype)) {}
};

TEST(BatchNorm, HandComputed) {
  TrainingScope training;
  const Tensor x = from_vector<double>({4, 1}, {1, 3, 5, 7});  // mean 4, variance 5
  Tensor gamma = from_vector<double>({1}, {2}), beta = from_vector<double>({1}, {10});
  Tensor mean = zeros({1}, DType::f64), var = ones({1}, DType::f64);
  const Tensor y = batch_norm(x, gamma, beta, mean, var, {.eps = 4, .momentum = 0.1});
  expect_near(y, {8, 10 - 2.0 / 3, 10 + 2.0 / 3, 12});
  expect_near(mean, {0.4});
  expect_near(var, {0.9 + 0.1 * 20.0 / 3});  // the unbiased variance
}

TEST(BatchNorm, EvaluationUsesTheRunningStatistics) {
  const Tensor x = from_vector<double>({2, 1, 1, 2}, {1, 2, 3, 4});
  const Tensor gamma = from_vector<double>({2}, {2, 3}), beta = from_vector<double>({2}, {1, -1});
  const Tensor mean = from_vector<double>({2}, {1, 2}), var = from_vector<double>({2}, {3, 0});
  const Tensor y = batch_norm(x, gamma, beta, mean, var, {.eps = 1});
  expect_near(y, {1, -1, 3, 5});
  expect_near(mean, {1, 2});
}

TEST(BatchNorm, ABatchThatIsNotFiniteLeavesTheRunningStatistics) {
  TrainingScope training;
  Vectors v(2);
  const auto mean = v.mean.to_vector<double>(), var = v.var.to_vector<double>();
  const Tensor x = from_vector<double>({2, 2}, {1, 2, std::nan(""), 3});
  batch_norm(x, v.gamma, v.beta, v.mean, v.var);
  EXPECT_EQ(v.mean.to_vector<double>(), mean);
  EXPECT_EQ(v.var.to_vector<double>(), var);
}

TEST(BatchNorm, LargeMeansCostNoAccuracy) {
  TrainingScope training;
  // 5000 rows are several blocks; the std is a thousandth of the mean.
  const Tensor x = random_normal({5000, 3}, 7, 1000, 1, DType::f32);
  Vectors v(3, DType::f32);
  const auto y = batch_norm(x, ones({3}), zeros({3}), v.mean, v.var, {.momentum = 1});
  const auto values = y.to_vector<float>(), xs = x.to_vector<float>();
  const auto running = v.var.to_vector<float>();
  for (size_t j = 0; j < 3; ++j) {
    double sum = 0, squares = 0, mean = 0, m2 = 0;
    for (size_t i = j; i < values.size(); i += 3) {
      sum += values[i], squares += values[i] * values[i], mean += xs[i] / 5000.0;
    }
    for (size_t i = j; i < values.size(); i += 3) m2 += (xs[i] - mean) * (xs[i] - mean);
    EXPECT_NEAR(sum / 5000, 0, 1e-4);
    EXPECT_NEAR(squares / 5000, 1, 1e-4);
    EXPECT_NEAR(running[j], m2 / 4999, 1e-5 * m2 / 4999);
  }
}

TEST(BatchNorm, GradientsMatchDifferences) {
  TrainingScope training;
  for (const Shape& shape : {Shape{7, 3}, Shape{2, 3, 4, 5}}) {
    Vectors v(shape.back());
    expect_gradients(
        [&](const Tensors& in) { return batch_norm(in[0], in[1], in[2], v.mean, v.var); },
        {normal(shape, 21), v.gamma, v.beta});
  }
}

// A GPU merges the blocks with a few threads, each of which must have work.
TEST(BatchNorm, AGpuHasFewBlocksOfRows) {
  const Device gpu{DeviceKind::gpu, 0};
  EXPECT_EQ(channel_blocks({DType::f32, {256, 112, 112, 64}, gpu}).count(), 512);
  EXPECT_EQ(channel_blocks({DType::f32, {256, 7, 7, 2048}, gpu}).count(), 64);
  EXPECT_EQ(channel_blocks({DType::f32, {2, 3}, gpu}).count(), 1);
  EXPECT_EQ(channel_blocks({DType::f32, {0, 3}, gpu}).count(), 0);
}

// Compares several blocks of rows and parts of channels with the formulas.
TEST(BatchNorm, ManyBlocksFollowTheFormulas) {
  TrainingScope training;
  const int64_t rows = 150, c = 300;
  ASSERT_EQ(channel_blocks({DType::f64, {rows, c}, {}}).count(), 3);
  Vectors v(c);
  const Tensor x = requires_grad(normal({rows, c}, 1)), dy = normal({rows, c}, 2);
  const Tensor y = batch_norm(x, v.gamma, v.beta, v.mean, v.var);
  const auto xs = x.to_vector<double>(), dys = dy.to_vector<double>();
  const auto gamma = v.gamma.to_vector<double>(), beta = v.beta.to_vector<double>();
  std::vector<double> ys(xs.size()), dxs(xs.size());
  for (int64_t j = 0; j < c; ++j) {
    auto at = [&](int64_t i) { return static_cast<size_t>(i * c + j); };
    const double n = static_cast<double>(rows);
    double mean = 0, variance = 0, sum = 0, product = 0;
    for (int64_t i = 0; i < rows; ++i) mean += xs[at(i)] / n;
    for (int64_t i = 0; i < rows; ++i) variance += std::pow(xs[at(i)] - mean, 2) / n;
    const double inverse = 1 / std::sqrt(variance + 1e-5), g = gamma[static_cast<size_t>(j)];
    for (int64_t i = 0; i < rows; ++i) {
      ys[at(i)] = (xs[at(i)] - mean) * inverse * g + beta[static_cast<size_t>(j)];
      sum += dys[at(i)], product += dys[at(i)] * (xs[at(i)] - mean) * inverse;
    }
    for (int64_t i = 0; i < rows; ++i)
      dxs[at(i)] =
          g * inverse * (dys[at(i)] - sum / n - (xs[at(i)] - mean) * inverse * product / n);
  }
  expect_near(y, ys, 1e-10);
  expect_near(gradients(y, std::span(&x, 1), dy)[0], dxs, 1e-10);
}

// A norm's own statistics are float32; sums take others, too.
TEST(BatchNorm, SumsReadStatisticsOfSixteenBits) {
  const ChannelBlocks blocks{6, 3};
  const Tensor dy = normal({6, 4}, 1, DType::bf16), x = normal({6, 4}, 2, DType::bf16);
  const Tensor mean = normal({4}, 3, DType::bf16), scale = normal({4}, 4, DType::bf16);
  EXPECT_EQ(block_gradient_sums(dy, x, mean, scale, blocks).to_vector<float>(),
            block_gradient_sums(dy, x, cast(mean, DType::f32), cast(scale, DType::f32), blocks)
                .to_vector<float>());
}

TEST(BatchNorm, GradientsInEvaluationMatchDifferences) {
  Vectors v(3);
  expect_gradients(
      [&](const Tensors& in) { return batch_norm(in[0], in[1], in[2], v.mean, v.var); },
      {normal({4, 2, 3}, 21), v.gamma, v.beta});
}

TEST(BatchNorm, TheNumberOfThreadsDoesNotMatter) {
  TrainingScope training;
  std::vector<std::vector<float>> results;
  for (int count : {1, 3}) {
    const SettingsScope scope({.threads = count});
    Vectors v(70, DType::f32);
    const Tensor x = requires_grad(normal({3000, 70}, 1, DType::f32));
    const Tensor y = batch_norm(x, v.gamma, v.beta, v.mean, v.var);
    results.push_back(y.to_vector<float>());
    results.push_back(
        gradients(y, std::span(&x, 1), normal({3000, 70}, 2, DType::f32))[0].to_vector<float>());
  }
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[3]);
}

TEST(BatchNorm, TheLastStepIsAScalarProgram) {
  TrainingScope training;
  Vectors v(3);
  const Tensor x = requires_grad(normal({4, 3}, 1));
  const Tensor y = batch_norm(x, v.gamma, v.beta, v.mean, v.var);
  const Op& op = *y.impl()->node->op;
  ASSERT_TRUE(op.pointwise());
  EXPECT_EQ(op.pointwise()->inputs, 5);
  EXPECT_EQ(op.saved().outputs, 0u);
}

TEST(BatchNorm, ErrorsExplain) {
  Vectors v(3, DType::f32);
  EXPECT_EQ(
      message_of([&] {
        batch_norm(zeros({2, 4}), v.gamma, v.beta, v.mean, v.var);
      }),
      "batch_norm: gamma must be [4] (one for each channel of x), but is [3] (x float32[2x4], "
      "gamma float32[3], beta float32[3], running_mean float32[3], running_var float32[3])");
  EXPECT_EQ(message_of([&] { batch_norm(zeros({3}), v.gamma, v.beta, v.mean, v.var); }),
            "batch_norm: x must have 2 axes or more, but has 1 (x float32[3], gamma float32[3], "
            "beta float32[3], running_mean float32[3], running_var float32[3])");
  TrainingScope training;
  EXPECT_EQ(message_of([&] {
              batch_norm(zeros({1, 3}), v.gamma, v.beta, v.mean, v.var);
            }),
            "batch_norm: each channel must have at least two values for a variance in training; "
            "use a larger batch, or evaluation (x float32[1x3], gamma float32[3], beta float32[3], "
            "running_mean float32[3], running_var float32[3])");
}

}  // namespace
}  // namespace tessera
