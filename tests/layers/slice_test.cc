#include "tessera/layers/slice.h"

#include "tessera/tests/engine/op_testing.h"

#include "tessera/layers/concat.h"
#include "tessera/layers/shortcut.h"

namespace tessera {
namespace {

Tensor counted(const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(static_cast<double>(i + 1));
  return from_vector(shape, values);
}

TEST(Slice, HandComputed) {
  const Tensor x = counted({2, 3, 4});
  expect_near(slice(x, 1, 1, 3), {5, 6, 7, 8, 9, 10, 11, 12, 17, 18, 19, 20, 21, 22, 23, 24});
  expect_near(slice(x, -1, 0, 4, 3), {1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24});
  expect_near(slice(x, 0, 1, 2),
              slice(x, {.begin = {1}, .step = {1, 1, 1}, .size = {1, 3, 4}}).to_vector<double>());
  EXPECT_EQ(slice(x, 2, 1, 1).shape(), Shape({2, 3, 0}));
}

TEST(Slice, OutsideIsZero) {
  const Tensor x = counted({2, 2});
  expect_near(pad(x, -1, 1, 2), {0, 1, 2, 0, 0, 0, 3, 4, 0, 0});
  expect_near(pad(x, 0, 1, 0), {0, 0, 1, 2, 3, 4});
  // Starts before x and ends behind it, two steps at a time.
  expect_near(slice(counted({3}), {.begin = {-2}, .step = {2}, .size = {4}}), {0, 1, 3, 0});
  expect_near(slice(counted({3}), {.begin = {-1}, .step = {2}, .size = {3}}), {0, 2, 0});
  expect_near(slice(counted({3}), {.begin = {5}, .step = {1}, .size = {2}}), {0, 0});
  expect_near(slice(counted({3}), {.begin = {-9}, .step = {1}, .size = {2}}), {0, 0});
}

TEST(Slice, TakesEveryDtype) {
  const Tensor x = from_vector<uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(slice(x, 1, 1, 3).to_vector<uint8_t>(), (std::vector<uint8_t>{2, 3, 5, 6}));
}

TEST(Slice, GradientsMatchDifferences) {
  const SliceParams boxes[] = {
      {.begin = {1, 0, -1}, .step = {1, 2, 1}, .size = {2, 2, 7}},
      {.begin = {-1, 1, 4}, .step = {2, 1, 3}, .size = {3, 5, 3}},
  };
  for (const SliceParams& box : boxes) {
    expect_gradients([&](const Tensors& in) { return slice(in[0], box); }, {normal({3, 4, 5}, 2)});
  }
}

TEST(Slice, ErrorsExplain) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(message_of([&] { slice(x, 1, 1, 4); }),
            "slice: [1, 4) must lie in axis 1, which has 3 elements (x float32[2x3])");
  EXPECT_EQ(message_of([&] { slice(x, 2, 0, 1); }),
            "slice: axis must be between -2 and 1, is 2 (x float32[2x3])");
  EXPECT_EQ(message_of([&] { slice(x, 1, 0, 1, 0); }),
            "slice: the step must be at least 1, is 0 (x float32[2x3])");
  EXPECT_EQ(message_of([&] { slice(x, {.size = {2}}); }),
            "slice: the box [2] must have as many axes as x (x float32[2x3])");
  EXPECT_EQ(message_of([&] { pad(x, 0, -1, 0); }),
            "pad: counts of zeros must not be negative, are -1 and 0 (x float32[2x3])");
}

TEST(Shortcut, HandComputed) {
  const Tensor x = counted({1, 3, 3, 1});
  const Tensor y = shortcut(x, {.stride = 2, .channels = 4});
  EXPECT_EQ(y.shape(), Shape({1, 2, 2, 4}));
  expect_near(y, {0, 1, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0});
}

TEST(Shortcut, GradientsMatchDifferences) {
  expect_gradients([](const Tensors& in) { return shortcut(in[0], {.stride = 2, .channels = 6}); },
                   {normal({2, 4, 5, 3}, 2)});
}

TEST(Shortcut, ErrorsExplain) {
  const Tensor x = zeros({1, 4, 4, 8});
  EXPECT_EQ(message_of([&] { shortcut(x, {.stride = 2, .channels = 6}); }),
            "shortcut: y cannot have fewer channels than x, 6 are wanted (x float32[1x4x4x8])");
  EXPECT_EQ(message_of([&] { shortcut(x, {.stride = 0, .channels = 8}); }),
            "shortcut: stride must be at least 1, is 0 (x float32[1x4x4x8])");
}

TEST(Concat, HandComputed) {
  const Tensor a = counted({2, 2}), b = counted({2, 1}) * 10.0, c = counted({1, 2}) * 100.0;
  expect_near(concat({a, b}), {1, 2, 10, 3, 4, 20});
  expect_near(concat({a, c, a}, 0), {1, 2, 3, 4, 100, 200, 1, 2, 3, 4});
}

TEST(Concat, GradientsMatchDifferences) {
  for (const int axis : {0, 1, 2, -1}) {
    Shape other{2, 3, 4};
    other[axis] = 5;
    expect_gradients(
        [&](const Tensors& in) {
          return concat({in[0], in[1], in[0]}, axis);
        },
        {normal({2, 3, 4}, 2), normal(other, 3)});
  }
}

TEST(Concat, ErrorsExplain) {
  EXPECT_EQ(message_of([] {
              concat({zeros({2, 3}), zeros({3, 3})}, 1);
            }),
            "concat: the sizes must be equal along every axis but 1 (float32[2x3], float32[3x3])");
  EXPECT_EQ(message_of([] {
              concat({zeros({2, 3})}, 2);
            }),
            "concat: axis must be between -2 and 1, is 2 (float32[2x3])");
  EXPECT_EQ(message_of([] { concat({}); }), "concat: takes 1 to 32 tensors, was given 0");
  EXPECT_EQ(message_of([] {
              concat({zeros({2}), zeros({2}, DType::f64)});
            }),
            "concat: the tensors must have one dtype; cast() converts (float32[2], float64[2])");
}

}  // namespace
}  // namespace tessera
