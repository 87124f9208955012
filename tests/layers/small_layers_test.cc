// Tests of layers that consist of other ops: adaptive pooling, shuffled channels, local response
// normalization, stochastic depth. golden_ops_test.cc compares their values with PyTorch's.
#include <cmath>

#include "tessera/engine/scope.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/dropout.h"
#include "tessera/layers/ops/local_response_norm.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(AdaptivePool2d, WindowsOverlapWhereTheSizeDoesNotDivide) {
  const Tensor x = from_vector<double>({1, 1, 5, 1}, {1, 2, 3, 4, 9});
  expect_near(adaptive_max_pool2d(x, {1, 2}), {3, 9});
  expect_near(adaptive_average_pool2d(x, {1, 2}), {2, 16.0 / 3});
  expect_near(adaptive_average_pool2d(x, {1, 5}), {1, 2, 3, 4, 9});
}

TEST(AdaptivePool2d, MayBeLongerThanConcatTakes) {
  const Tensor y = adaptive_average_pool2d(counted({1, 1, 100, 1}), {1, 70});
  EXPECT_EQ(y.shape(), Shape({1, 1, 70, 1}));
  const auto values = y.to_vector<double>();
  EXPECT_EQ(values.front(), 1.5);  // pixels 0 and 1
  EXPECT_EQ(values[35], 51.5);     // 50 and 51
  EXPECT_EQ(values.back(), 99.5);
}

TEST(AdaptivePool2d, GradientsMatchDifferences) {
  for (const Size2 out : {Size2(3, 4), Size2(2, 3), Size2(7, 5)}) {
    expect_gradients([&](const Tensors& in) { return adaptive_average_pool2d(in[0], out); },
                     {normal({2, 6, 8, 3}, 1)});
    expect_gradients([&](const Tensors& in) { return adaptive_max_pool2d(in[0], out); },
                     {spread({2, 6, 8, 3})});
  }
}

TEST(AdaptivePool2d, ErrorsExplain) {
  EXPECT_EQ(message_of([] {
              adaptive_max_pool2d(zeros({1, 2, 3, 1}), {0, 1});
            }),
            "adaptive_max_pool2d: out must be >= 1, but is 0x1 (x float32[1x2x3x1])");
}

TEST(ChannelShuffle, GroupsTakeTurns) {
  expect_near(channel_shuffle(counted({1, 6}), 2), {1, 4, 2, 5, 3, 6});
  expect_near(channel_shuffle(channel_shuffle(counted({2, 2, 6}), 2), 3),
              counted({2, 2, 6}).to_vector<double>());
  expect_gradients([](const Tensors& in) { return channel_shuffle(in[0], 3); },
                   {normal({2, 3, 6}, 1)});
  EXPECT_EQ(message_of([] {
              channel_shuffle(zeros({2, 5}), 2);
            }),
            "channel_shuffle: 2 groups do not divide 5 channels (x float32[2x5])");
}

TEST(LocalResponseNorm, GradientsMatchDifferences) {
  for (const int64_t size : {1, 3, 4, 9})
    expect_gradients(
        [&](const Tensors& in) {
          return local_response_norm(in[0], {.size = size, .alpha = 0.5, .k = 2});
        },
        {normal({2, 3, 2, 5}, 1)});
}

TEST(LocalResponseNorm, OfOneChannelIsAFormula) {
  const Tensor x = from_vector<double>({3, 1}, {0, 1, -2});
  const Tensor y = local_response_norm(x, {.size = 1, .alpha = 3, .beta = 0.5, .k = 1});
  expect_near(y, {0, 0.5, -2 / std::sqrt(13.0)});
}

TEST(StochasticDepth, LeavesWholeSamplesOut) {
  const Tensor x = random_uniform({200, 3, 2}, 1, 1, 2, DType::f64);
  EXPECT_EQ(stochastic_depth(x, 0.5).to_vector<double>(), x.to_vector<double>());  // evaluation
  TrainingScope training;
  RandomScope random(1, zeros({2}, DType::i64));
  const auto in = x.to_vector<double>(), out = stochastic_depth(x, 0.25).to_vector<double>();
  int left_out = 0;
  for (size_t sample = 0; sample < 200; ++sample) {
    const bool is_out = out[6 * sample] == 0;
    left_out += is_out;
    for (size_t i = 6 * sample; i < 6 * sample + 6; ++i)
      EXPECT_DOUBLE_EQ(out[i], is_out ? 0 : in[i] / 0.75);
  }
  EXPECT_GT(left_out, 30);
  EXPECT_LT(left_out, 70);
}

TEST(StochasticDepth, GradientsMatchDifferences) {
  expect_gradients(
      [](const Tensors& in) {
        TrainingScope training;
        RandomScope random(1, zeros({2}, DType::i64));
        return stochastic_depth(in[0], 0.5);
      },
      {normal({6, 2, 3}, 1)});
}

}  // namespace
}  // namespace tessera
