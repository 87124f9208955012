#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/gradient_check.h"
#include "tessera/engine/tape.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

const Tensor& labels5() {
  static const Tensor labels = from_vector<int32_t>({5}, {2, 0, 6, 6, 3});
  return labels;
}

Tensor logits5(uint64_t key = 1) { return random_normal({5, 7}, key, 0, 2, DType::f64); }

// Returns rows that add up to 1.
Tensor targets5() {
  const Tensor positive = random_uniform({5, 7}, 2, 0.1, 1, DType::f64);
  auto values = positive.to_vector<double>();
  for (size_t row = 0; row < values.size(); row += 7) {
    double sum = 0;
    for (size_t j = 0; j < 7; ++j) sum += values[row + j];
    for (size_t j = 0; j < 7; ++j) values[row + j] /= sum;
  }
  return from_vector({5, 7}, values);
}

// Computes the formula of the header directly.
double reference(const std::vector<double>& z, const std::vector<double>& t, double smoothing,
                 size_t classes) {
  double loss = 0;
  const size_t n = z.size() / classes;
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (size_t j = 0; j < classes; ++j) sum += std::exp(z[i * classes + j]);
    for (size_t j = 0; j < classes; ++j) {
      const double target =
          (1 - smoothing) * t[i * classes + j] + smoothing / static_cast<double>(classes);
      loss -= target * std::log(std::exp(z[i * classes + j]) / sum);
    }
  }
  return loss / static_cast<double>(n);
}

TEST(CrossEntropy, FollowsItsFormulaForLabelsAndTargets) {
  for (double smoothing : {0.0, 0.1}) {
    std::vector<double> one_hot(35);
    const auto labels = labels5().to_vector<int32_t>();
    for (size_t i = 0; i < 5; ++i) one_hot[i * 7 + static_cast<size_t>(labels[i])] = 1;
    const auto z = logits5().to_vector<double>();
    EXPECT_NEAR(cross_entropy(logits5(), labels5(), {smoothing}).item<double>(),
                reference(z, one_hot, smoothing, 7), 1e-13);
    EXPECT_NEAR(cross_entropy(logits5(), targets5(), {smoothing}).item<double>(),
                reference(z, targets5().to_vector<double>(), smoothing, 7), 1e-13);
  }
}

TEST(CrossEntropy, GradientsOfLogitsAndTargets) {
  for (double smoothing : {0.0, 0.1}) {
    const auto labelled =
        check_gradients([&](const Tensors& t) { return cross_entropy(t[0], t[1], {smoothing}); },
                        {logits5(), labels5()});
    EXPECT_TRUE(labelled) << labelled.report;
    const auto soft =
        check_gradients([&](const Tensors& t) { return cross_entropy(t[0], t[1], {smoothing}); },
                        {logits5(), targets5()});
    EXPECT_TRUE(soft) << soft.report;
    // Targets that do not add up to 1.
    const auto any =
        check_gradients([&](const Tensors& t) { return cross_entropy(t[0], t[1], {smoothing}); },
                        {logits5(), random_uniform({5, 7}, 9, 0, 1, DType::f64)});
    EXPECT_TRUE(any) << any.report;
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  const Tensor z = from_vector<float>({2, 2}, {1000, 0, -1000, 1000});
  const Tensor y = from_vector<int32_t>({2}, {0, 0});
  EXPECT_FLOAT_EQ(cross_entropy(z, y).item<float>(), 1000.0f);
}

TEST(CrossEntropy, ALabelOutOfRangeIsAnErrorThatNamesTheSample) {
  for (int32_t bad : {7, -1, std::numeric_limits<int32_t>::min()}) {
    const Tensor labels = from_vector<int32_t>({5}, {2, 0, 6, bad, 3});
    try {
      cross_entropy(logits5(), labels);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "cross_entropy: labels must be in [0, 7), one for each column of logits, but the "
                "label of sample 3 is " +
                    std::to_string(bad));
    }
  }
}

// If labels are not checked beforehand, the kernel must not read outside of the row.
TEST(CrossEntropy, TheKernelTurnsABadLabelIntoNaN) {
  const Tensor z = requires_grad(logits5());
  const Tensor loss = cross_entropy(z, labels5());
  const OpPtr op = loss.impl()->node->op;
  const Tensor bad = from_vector<int32_t>({5}, {2, 0, 70000, 6, 3});
  EXPECT_TRUE(std::isnan(apply1(op, {logits5(), bad}).item<double>()));
}

std::string message_of(const Tensor& logits, const Tensor& labels, CrossEntropyParams p = {}) {
  try {
    cross_entropy(logits, labels, p);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "no ShapeError";
}

TEST(CrossEntropy, ShapesThatDoNotFitAreExplained) {
  const Tensor z = zeros({5, 7});
  EXPECT_EQ(message_of(z, zeros({4}, DType::i32)),
            "cross_entropy: labels must be [5] (one label for each row of logits), but is [4] "
            "(logits float32[5x7], labels int32[4])");
  EXPECT_EQ(message_of(z, zeros({5, 8})),
            "cross_entropy: labels must be [5x7] (one target for each logit), but is [5x8] (logits "
            "float32[5x7], labels float32[5x8])");
  EXPECT_EQ(message_of(z, zeros({5}, DType::i64)),
            "cross_entropy: labels must be int32, or targets of the dtype of logits, but are "
            "int64; use cast() (logits float32[5x7], labels int64[5])");
  EXPECT_EQ(
      message_of(zeros({5}), zeros({5}, DType::i32)),
      "cross_entropy: logits must have 2 axes, but has 1 (logits float32[5], labels int32[5])");
  EXPECT_EQ(message_of(z, zeros({5}, DType::i32), {1.0}),
            "cross_entropy: label_smoothing must be in [0, 1), but is 1 (logits float32[5x7], "
            "labels int32[5])");
  EXPECT_EQ(message_of(zeros({0, 7}), zeros({0}, DType::i32)),
            "cross_entropy: logits must have at least one row and one class (logits float32[0x7], "
            "labels int32[0])");
}

}  // namespace
}  // namespace tessera
