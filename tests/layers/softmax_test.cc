#include "tessera/layers/ops/softmax.h"

#include <cmath>

#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(Softmax, HandComputed) {
  const Tensor x = from_vector<double>({2, 2}, {0, std::log(3.0), 5, 5});
  expect_near(softmax(x), {0.25, 0.75, 0.5, 0.5});
  expect_near(log_softmax(x), {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)});
}

TEST(Softmax, LargeValuesDoNotOverflow) {
  const Tensor x = from_vector<float>({1, 3}, {1000, 998, -1e30f});
  const auto y = softmax(x).to_vector<float>(), logs = log_softmax(x).to_vector<float>();
  EXPECT_FLOAT_EQ(y[0], 1 / (1 + std::exp(-2.0f)));
  EXPECT_EQ(y[2], 0);
  EXPECT_FLOAT_EQ(logs[1], -2 - std::log1p(std::exp(-2.0f)));
  EXPECT_EQ(logs[2], -1e30f);
}

TEST(Softmax, GradientsMatchDifferences) {
  expect_gradients([](const Tensors& in) { return softmax(in[0]); }, {normal({3, 2, 7}, 2)});
  expect_gradients([](const Tensors& in) { return log_softmax(in[0]); }, {normal({3, 2, 7}, 2)});
}

TEST(Softmax, ErrorsExplain) {
  EXPECT_EQ(message_of([] { softmax(scalar(1)); }),
            "softmax: x must have at least one axis (x float32[])");
  EXPECT_EQ(message_of([] { log_softmax(zeros({3}, DType::i32)); }),
            "log_softmax: x must be floating point, but is int32; use cast() (x int32[3])");
}

}  // namespace
}  // namespace tessera
