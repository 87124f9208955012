#include "tessera/layers/conv2d/conv2d.h"

#include "tessera/engine/op.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tape.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

// Computes the definition, element by element.
std::vector<double> by_definition(const Tensor& x, const Tensor& w, const Conv2dParams& p,
                                  const Shape& y) {
  const auto xs = x.to_vector<double>(), ws = w.to_vector<double>();
  const Shape &a = x.shape(), &f = w.shape();
  const int64_t in_group = f[3], out_group = f[0] / p.groups;
  std::vector<double> values;
  for (int64_t b = 0; b < y[0]; ++b)
    for (int64_t i = 0; i < y[1]; ++i)
      for (int64_t j = 0; j < y[2]; ++j)
        for (int64_t q = 0; q < y[3]; ++q) {
          double sum = 0;
          for (int64_t u = 0; u < f[1]; ++u)
            for (int64_t v = 0; v < f[2]; ++v)
              for (int64_t k = 0; k < in_group; ++k) {
                const int64_t r = i * p.stride.h - p.padding.h + u * p.dilation.h;
                const int64_t s = j * p.stride.w - p.padding.w + v * p.dilation.w;
                if (r < 0 || s < 0 || r >= a[1] || s >= a[2]) continue;
                const int64_t channel = q / out_group * in_group + k;
                sum += xs[static_cast<size_t>(((b * a[1] + r) * a[2] + s) * a[3] + channel)] *
                       ws[static_cast<size_t>(((q * f[1] + u) * f[2] + v) * f[3] + k)];
              }
          values.push_back(sum);
        }
  return values;
}

struct Case {
  Shape x, w, y;
  Conv2dParams params;
};

std::vector<Case> cases() {
  return {
      {{2, 5, 6, 3}, {4, 3, 3, 3}, {2, 5, 6, 4}, {.padding = 1}},
      {{1, 7, 5, 2}, {3, 3, 2, 2}, {1, 4, 2, 3}, {.stride = {2, 2}, .padding = {1, 0}}},
      {{2, 6, 6, 3}, {5, 1, 1, 3}, {2, 3, 3, 5}, {.stride = 2}},
      {{1, 8, 7, 2}, {2, 3, 3, 2}, {1, 4, 3, 2}, {.dilation = 2}},
      {{2, 5, 5, 6}, {4, 3, 3, 3}, {2, 5, 5, 4}, {.padding = 1, .groups = 2}},
      {{1, 6, 5, 4}, {4, 3, 3, 1}, {1, 3, 3, 4}, {.stride = 2, .padding = 1, .groups = 4}},
  };
}

TESSERA_UNDER_EACH_KERNELS(Conv2d);

TEST_P(Conv2d, FollowsItsDefinition) {
  for (const Case& c : cases()) {
    const Tensor x = normal(c.x, 21), w = normal(c.w, 2), y = conv2d(x, w, c.params);
    ASSERT_EQ(y.shape(), c.y);
    expect_near(y, by_definition(x, w, c.params, c.y), 1e-11);
  }
}

TEST_P(Conv2d, GradientsMatchDifferences) {
  for (const Case& c : cases()) {
    expect_gradients([&](const Tensors& in) { return conv2d(in[0], in[1], c.params); },
                     {normal(c.x, 21), normal(c.w, 2)});
  }
}

TEST_P(Conv2d, GradientOpsHaveGradients) {
  for (const Case& c : cases()) {
    expect_gradients(
        [&](const Tensors& in) {
          return conv2d_input_grad(in[0], in[1], {c.x[1], c.x[2]}, c.params);
        },
        {normal(c.y, 3), normal(c.w, 2)});
    expect_gradients(
        [&](const Tensors& in) {
          return conv2d_weight_grad(in[0], in[1], {c.w[1], c.w[2]}, c.params);
        },
        {normal(c.x, 21), normal(c.y, 3)});
  }
}

TEST_P(Conv2d, EachGradientKeepsOnlyWhatItReads) {
  // Only the filters are tracked: dx is skipped, and dw must not need what only dx reads.
  const Tensor x = normal({1, 4, 4, 2}, 1), w = normal({3, 3, 3, 2}, 2);
  const Tensor dy = normal({1, 4, 4, 3}, 3);
  const Tensor leaf = requires_grad(w);
  const Tensor dw = gradients(conv2d(x, leaf, {.padding = 1}), std::span(&leaf, 1), dy)[0];
  expect_near(dw, conv2d_weight_grad(x, dy, 3, {.padding = 1}).to_vector<double>(), 0);
}

// A conv2d with max(y + bias, 0) fused gives the bits of the separate nodes.
TEST_P(Conv2d, Float32FiltersOfBfloat16ImagesReceiveAnUnroundedGradient) {
  const auto rounded = [](const Shape& shape, uint64_t key) {
    return cast(normal(shape, key), DType::bf16);
  };
  const Tensor x = rounded({2, 6, 6, 4}, 1), dy = rounded({2, 4, 4, 8}, 3);
  const Tensor w = requires_grad(normal({8, 3, 3, 4}, 2, DType::f32));
  const Tensor dw = gradients(conv2d(x, w), Tensors{w}, dy)[0];
  EXPECT_EQ(dw.to_vector<float>(), conv2d_weight_grad(x, dy, {3, 3}).to_vector<float>());
  EXPECT_NE(dw.to_vector<float>(), cast(cast(dw, DType::bf16), DType::f32).to_vector<float>());
}

TEST_P(Conv2d, EpilogueGivesTheBitsOfTheSeparateSteps) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool gradient : {false, true}) {
      const Conv2dParams settings{.padding = 1};
      const Tensor x = normal({2, 9, 9, 5}, 1, dtype), w = normal({7, 3, 3, 5}, 2, dtype);
      const Tensor dy = normal({2, 9, 9, 7}, 4, dtype);
      const Tensor b = normal({gradient ? 5 : 7}, 3, dtype);
      OpPtr op;  // the op of the free function
      {
        const Tensor a = requires_grad(gradient ? dy : x);
        const Tensor y = gradient ? conv2d_input_grad(a, w, 9, settings) : conv2d(a, w, settings);
        op = y.impl()->node->op;
      }
      ScalarBuilder p(2);
      const ScalarProgram add = p.build(p.add(p.in(0), p.in(1)));
      ScalarBuilder q(1);
      const ScalarProgram relu = q.build(q.push(ScalarOp::max, q.in(0), q.value(0)));
      const Tensor& first = gradient ? dy : x;
      const Tensor plain = apply1(op, {first, w});
      const Specs in = {first.spec(), w.spec()}, of_add = {b.spec(), plain.spec()};
      // The fused input is the second one here: b + y.
      const auto once = op->fuse_epilogue(add, 1, in, of_add);
      ASSERT_TRUE(once);
      EXPECT_EQ(once->inputs, (std::vector<int>{0, 1, -1}));
      const Specs in_once = {first.spec(), w.spec(), b.spec()}, of_relu = {plain.spec()};
      const auto twice = once->op->fuse_epilogue(relu, 0, in_once, of_relu);
      ASSERT_TRUE(twice);
      EXPECT_EQ(twice->inputs, (std::vector<int>{0, 1, 2}));
      const Tensor fused = apply1(twice->op, {first, w, b});
      const Tensor separate = pointwise("relu", relu, {pointwise("add", add, {b, plain})});
      if (dtype == DType::f32) {
        EXPECT_EQ(fused.to_vector<float>(), separate.to_vector<float>());
      } else {
        EXPECT_EQ(fused.to_vector<double>(), separate.to_vector<double>());
      }
    }
  }
}

TEST_P(Conv2d, RefusesAnEpilogueThatChangesTheShape) {
  const Tensor x = requires_grad(normal({1, 4, 4, 2}, 1)), w = normal({3, 1, 1, 2}, 2);
  const Tensor y = conv2d(x, w);
  ScalarBuilder p(2);
  const ScalarProgram add = p.build(p.add(p.in(0), p.in(1)));
  const Specs in = {x.spec(), w.spec()};
  TensorSpec larger = y.spec();
  larger.shape = {2, 1, 4, 4, 3};
  EXPECT_FALSE(y.impl()->node->op->fuse_epilogue(add, 0, in, Specs{y.spec(), larger}));
}

TEST_P(Conv2d, SettingsTellOpsApart) {
  const Tensor x = requires_grad(normal({1, 6, 6, 2}, 1)), w = normal({3, 3, 3, 2}, 2);
  auto op = [&](const Conv2dParams& params) { return conv2d(x, w, params).impl()->node->op; };
  EXPECT_TRUE(op({.stride = 2})->is_equivalent(*op({.stride = 2})));
  EXPECT_FALSE(op({.stride = 2})->is_equivalent(*op({.stride = 1})));
}

TEST_P(Conv2d, ErrorsExplain) {
  const Tensor x = zeros({4, 12, 12, 3});
  EXPECT_EQ(message_of([&] {
              conv2d(x, zeros({8, 3, 3, 4}));
            }),
            "conv2d: x has 3 channels, but w expects 4 (x float32[4x12x12x3], w "
            "float32[8x3x3x4])");
  EXPECT_EQ(message_of([&] {
              conv2d(x, zeros({8, 3, 3, 3}), {.groups = 2});
            }),
            "conv2d: groups = 2 must divide the 3 channels of x and the 8 filters (x "
            "float32[4x12x12x3], w float32[8x3x3x3])");
  EXPECT_EQ(message_of([&] {
              conv2d(x, zeros({8, 7, 7, 3}), {.padding = 1, .dilation = 3});
            }),
            "conv2d: the filter covers 19x19 pixels, but x has 14x14 with its padding; pad more, "
            "or use a smaller filter (x float32[4x12x12x3], w float32[8x7x7x3])");
  EXPECT_EQ(
      message_of([&] {
        conv2d(x, zeros({8, 3, 3, 3}), {.stride = 0});
      }),
      "conv2d: stride must be at least 1, but is 0x0 (x float32[4x12x12x3], w float32[8x3x3x3])");
  EXPECT_EQ(message_of([&] {
              conv2d(zeros({12, 12, 3}), zeros({8, 3, 3, 3}));
            }),
            "conv2d: x must have 4 axes, but has 3 (x float32[12x12x3], w float32[8x3x3x3])");
  EXPECT_EQ(message_of([&] {
              conv2d(x, zeros({8, 3, 3, 3}, DType::f64));
            }),
            "conv2d: x and w must have the same dtype, but have float32 and float64; use cast() (x "
            "float32[4x12x12x3], w float64[8x3x3x3])");
  EXPECT_EQ(message_of([&] {
              conv2d_input_grad(zeros({4, 9, 9, 8}), zeros({8, 3, 3, 3}), 12);
            }),
            "conv2d_input_grad: dy must be [4x10x10x8] (the output shape of conv2d), but is "
            "[4x9x9x8] (dy float32[4x9x9x8], w float32[8x3x3x3])");
}

}  // namespace
}  // namespace tessera
