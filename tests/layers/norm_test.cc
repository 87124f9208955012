// layer_norm, group_norm and scale_channels.
#include <cmath>

#include "tessera/tests/engine/op_testing.h"

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"
#include "tessera/layers/group_norm.h"
#include "tessera/layers/layer_norm.h"
#include "tessera/layers/scale_channels.h"

namespace tessera {
namespace {

TEST(LayerNorm, HandComputed) {
  const Tensor x = from_vector<double>({2, 4}, {1, 3, 5, 7, 2, 2, 2, 2});  // mean 4, variance 5
  const Tensor gamma = from_vector<double>({4}, {1, 2, 3, 4});
  const Tensor beta = from_vector<double>({4}, {0, 0, 1, 1});
  expect_near(layer_norm(x, gamma, beta, {.eps = 4}), {-1, -2.0 / 3, 2, 5, 0, 0, 1, 1});
}

TEST(LayerNorm, GradientsMatchDifferences) {
  // 37 channels: whole vectors and a rest.
  for (const Shape& shape : {Shape{5, 37}, Shape{2, 3, 2, 6}, Shape{1, 8}, Shape{9}}) {
    const int64_t c = shape.back();
    expect_gradients([](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
                     {normal(shape, 2), normal({c}, 3), normal({c}, 4)});
  }
}

TEST(LayerNorm, ManyRowsFollowTheFormulas) {
  const int64_t rows = 1500, c = 20;  // two blocks of rows
  const Tensor gamma = tracked(normal({c}, 3)), x = normal({rows, c}, 2), dy = normal({rows, c}, 5);
  const Tensor y = layer_norm(x, gamma, zeros({c}, DType::f64));
  const auto xs = x.to_vector<double>(), dys = dy.to_vector<double>();
  std::vector<double> dgamma(static_cast<size_t>(c));
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    const double* row = xs.data() + r * dgamma.size();
    double mean = 0, variance = 0;
    for (size_t j = 0; j < dgamma.size(); ++j) mean += row[j] / 20;
    for (size_t j = 0; j < dgamma.size(); ++j) variance += (row[j] - mean) * (row[j] - mean) / 20;
    for (size_t j = 0; j < dgamma.size(); ++j)
      dgamma[j] += dys[r * dgamma.size() + j] * (row[j] - mean) / std::sqrt(variance + 1e-5);
  }
  expect_near(gradients(y, std::span(&gamma, 1), dy)[0], dgamma, 1e-9);
}

TEST(LayerNorm, TheLastStepIsAScalarProgram) {
  const Tensor x = tracked(normal({4, 3}, 1)), v = normal({3}, 2);
  EXPECT_TRUE(layer_norm(x, v, v).impl()->node->op->pointwise());
}

TEST(LayerNorm, ErrorsExplain) {
  EXPECT_EQ(message_of([] {
              layer_norm(zeros({2, 4}), zeros({4}), zeros({3}));
            }),
            "layer_norm: beta must be [4] (one for each channel of x), is [3] (x float32[2x4], "
            "gamma float32[4], beta float32[3])");
}

TEST(GroupNorm, HandComputed) {
  // Two pixels, groups of two channels: {1, 3, 5, 7} and {2, 2, 2, 2}.
  const Tensor x = from_vector<double>({1, 2, 4}, {1, 3, 2, 2, 5, 7, 2, 2});
  const Tensor gamma = from_vector<double>({4}, {1, 2, 3, 4});
  const Tensor beta = from_vector<double>({4}, {0, 0, 1, 1});
  expect_near(group_norm(x, gamma, beta, {.groups = 2, .eps = 4}),
              {-1, -2.0 / 3, 1, 1, 1.0 / 3, 2, 1, 1});
}

TEST(GroupNorm, GradientsMatchDifferences) {
  for (const int64_t groups : {1, 2, 6}) {
    for (const Shape& shape : {Shape{2, 5, 3, 6}, Shape{3, 6}}) {
      if (shape.rank() == 2 && groups == 6) continue;  // one value a group: y is beta
      expect_gradients(
          [&](const Tensors& in) { return group_norm(in[0], in[1], in[2], {.groups = groups}); },
          {normal(shape, 2), normal({6}, 3), normal({6}, 4)});
    }
  }
}

TEST(GroupNorm, OneGroupOfARowIsLayerNorm) {
  const Tensor x = normal({5, 12}, 2), gamma = normal({12}, 3), beta = normal({12}, 4);
  expect_near(group_norm(x, gamma, beta, {.groups = 1}),
              layer_norm(x, gamma, beta).to_vector<double>(), 1e-12);
}

TEST(GroupNorm, ErrorsExplain) {
  EXPECT_EQ(message_of([] {
              group_norm(zeros({2, 3, 4}), ones({4}), zeros({4}), {.groups = 3});
            }),
            "group_norm: groups = 3 must divide the 4 channels of x (x float32[2x3x4], gamma "
            "float32[4], beta float32[4])");
}

TEST(ScaleChannels, HandComputed) {
  const Tensor x = from_vector<double>({2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor scale = from_vector<double>({2, 2}, {1, 10, 2, 20});
  expect_near(scale_channels(x, scale), {1, 20, 3, 40, 10, 120, 14, 160});
}

TEST(ScaleChannels, GradientsMatchDifferences) {
  expect_gradients([](const Tensors& in) { return scale_channels(in[0], in[1]); },
                   {normal({2, 3, 4, 5}, 2), normal({2, 5}, 3)});
}

TEST(ScaleChannels, ErrorsExplain) {
  EXPECT_EQ(message_of([] {
              scale_channels(zeros({2, 3, 3, 4}), zeros({2, 3}));
            }),
            "scale_channels: scale must be [2x4] (one for each channel of each sample of x), is "
            "[2x3] (x float32[2x3x3x4], scale float32[2x3])");
}

}  // namespace
}  // namespace tessera
