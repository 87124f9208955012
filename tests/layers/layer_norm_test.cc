#include "tessera/layers/ops/layer_norm.h"

#include <cmath>

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/tape.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(LayerNorm, HandComputed) {
  const Tensor x = from_vector<double>({2, 4}, {1, 3, 5, 7, 2, 2, 2, 2});  // mean 4, variance 5
  const Tensor gamma = from_vector<double>({4}, {1, 2, 3, 4});
  const Tensor beta = from_vector<double>({4}, {0, 0, 1, 1});
  expect_near(layer_norm(x, gamma, beta, {.eps = 4}), {-1, -2.0 / 3, 2, 5, 0, 0, 1, 1});
}

TEST(LayerNorm, GradientsMatchDifferences) {
  // 37 channels: whole vectors and a remainder.
  for (const Shape& shape : {Shape{5, 37}, Shape{2, 3, 2, 6}, Shape{1, 8}, Shape{9}}) {
    const int64_t c = shape.back();
    expect_gradients([](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
                     {normal(shape, 2), normal({c}, 3), normal({c}, 4)});
  }
}

TEST(LayerNorm, ManyRowsFollowTheFormulas) {
  const int64_t rows = 1500, c = 20;  // two blocks of rows
  const Tensor gamma = requires_grad(normal({c}, 3)), x = normal({rows, c}, 2),
               dy = normal({rows, c}, 5);
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
  const Tensor x = requires_grad(normal({4, 3}, 1)), v = normal({3}, 2);
  EXPECT_TRUE(layer_norm(x, v, v).impl()->node->op->pointwise());
}

TEST(LayerNorm, ErrorsExplain) {
  EXPECT_EQ(message_of([] {
              layer_norm(zeros({2, 4}), zeros({4}), zeros({3}));
            }),
            "layer_norm: beta must be [4] (one for each channel of x), but is [3] (x float32[2x4], "
            "gamma float32[4], beta float32[3])");
}

}  // namespace
}  // namespace tessera
