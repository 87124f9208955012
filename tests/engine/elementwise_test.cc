// The eager API for any dtype: integers, comparisons, where(), positions.
#include <cmath>
#include <limits>
#include <sstream>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

Tensor ints(const Shape& shape, const std::vector<int32_t>& values) {
  return from_vector(shape, values);
}

template <class T>
void expect_values(const Tensor& tensor, const std::vector<T>& wanted) {
  EXPECT_EQ(tensor.to_vector<T>(), wanted);
}

TEST(Integers, AddSubtractAndMultiplyWithBroadcasting) {
  const Tensor a = ints({2, 1}, {1, -2}), b = ints({3}, {10, 20, 30});
  EXPECT_EQ((a + b).spec().text(), "int32[2x3]");
  expect_values<int32_t>(a + b, {11, 21, 31, 8, 18, 28});
  expect_values<int32_t>(b - a, {9, 19, 29, 12, 22, 32});
  expect_values<int32_t>(a * b, {10, 20, 30, -20, -40, -60});
  expect_values<int32_t>(2.0 - a * 3 + 1, {0, 9});
  expect_values<int32_t>(-a, {-1, 2});
  expect_values<int32_t>(maximum(a, ints({}, {0})), {1, 0});
  expect_values<int32_t>(clamp(b, 15, 25), {15, 20, 25});
}

// PyTorch's values, and its gradients for upstream gradients of 1.
TEST(Elementwise, MaximumAndMinimumKeepNan) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensors in{requires_grad(from_vector<double>({5}, {nan, 1, nan, 2, -1})),
                   requires_grad(from_vector<double>({5}, {1, nan, nan, 1, 0}))};
  for (const bool largest : {true, false}) {
    const Tensor y = largest ? maximum(in[0], in[1]) : minimum(in[0], in[1]);
    const auto values = y.to_vector<double>();
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(values[i])) << i;
    EXPECT_EQ(values[3], largest ? 2 : 1);
    EXPECT_EQ(values[4], largest ? 0 : -1);
    const Tensors slopes = gradients(y, in, full({5}, 1, DType::f64));
    const double first = largest ? 1 : 0, second = 1 - first;
    expect_values<double>(slopes[0], {1, 1, 1, first, second});
    expect_values<double>(slopes[1], {1, 1, 1, second, first});
  }
}

// PyTorch's numbers.
TEST(Elementwise, SinAndCos) {
  const Tensor x = requires_grad(from_vector<double>({6}, {0, 0.5, -1.25, 3, -7.5, 100}));
  const std::vector<double> sines{0,
                                  0.479425538604203,
                                  -0.9489846193555862,
                                  0.1411200080598672,
                                  -0.9379999767747389,
                                  -0.5063656411097588};
  const std::vector<double> cosines{1,
                                    0.8775825618903728,
                                    0.3153223623952687,
                                    -0.9899924966004454,
                                    0.3466353178350258,
                                    0.8623188722876839};
  expect_near(sin(x), sines, 1e-15);
  expect_near(cos(x), cosines, 1e-15);
  expect_near(gradients(sum(sin(x)), std::span(&x, 1))[0], cosines, 1e-15);
  expect_near(-gradients(sum(cos(x)), std::span(&x, 1))[0], sines, 1e-15);
  const Tensor single = from_vector<float>({3}, {1e4f, -22.75f, 0.1f});
  expect_near(cast(sin(single), DType::f64),
              {-0.3056143820285797, 0.6880884766578674, 0.0998334214091301}, 6e-8);
  expect_near(cast(cos(single), DType::f64),
              {-0.952155351638794, -0.7256268262863159, 0.9950041770935059}, 6e-8);
  expect_gradients([](const Tensors& t) { return sin(t[0]) * cos(t[1]); },
                   {normal({3, 4}, 1), normal({4}, 2)});
}

TEST(Elementwise, OperatorsCompareAsPyTorchDoes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = from_vector<float>({4}, {1, 2, nan, 4}),
               b = from_vector<float>({4}, {1, 3, nan, 2});
  expect_values<uint8_t>(a == b, {1, 0, 0, 0});
  expect_values<uint8_t>(a != b, {0, 1, 1, 1});
  expect_values<uint8_t>(a < b, {0, 1, 0, 0});
  expect_values<uint8_t>(a <= b, {1, 1, 0, 0});
  expect_values<uint8_t>(a > b, {0, 0, 0, 1});
  expect_values<uint8_t>(a >= b, {1, 0, 0, 1});
  expect_values<uint8_t>(a == 2, {0, 1, 0, 0});
  expect_values<uint8_t>(a != 2, {1, 0, 1, 1});
  expect_values<uint8_t>(a < 2, {1, 0, 0, 0});
  expect_values<uint8_t>(a <= 2, {1, 1, 0, 0});
  expect_values<uint8_t>(a > 2, {0, 0, 0, 1});
  expect_values<uint8_t>(a >= 2, {0, 1, 0, 1});
  expect_values<uint8_t>(ints({2, 1}, {1, 2}) == ints({2}, {2, 1}), {0, 1, 1, 0});
}

TEST(Integers, WrapAroundInsteadOfOverflowing) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const Tensor most = from_vector<int64_t>({1}, {kMax}), least = from_vector<int64_t>({1}, {kMin});
  expect_values<int64_t>(most + 1, {kMin});
  expect_values<int64_t>(least - 1, {kMax});
  expect_values<int64_t>(most * 2, {-2});
  expect_values<int64_t>(floor_divide(least, -1), {kMin});
  expect_values<int64_t>(remainder(least, -1), {0});
  const Tensor bytes = from_vector<uint8_t>({2}, {250, 3});
  expect_values<uint8_t>(bytes + 10, {4, 13});
  expect_values<uint8_t>(bytes * bytes, {36, 9});
}

// Same results as Python's // and %.
TEST(Integers, DivideDownwards) {
  const Tensor a = ints({4}, {7, -7, 7, -7}), b = ints({4}, {2, 2, -2, -2});
  expect_values<int32_t>(floor_divide(a, b), {3, -4, -4, 3});
  expect_values<int32_t>(remainder(a, b), {1, 1, -1, -1});
  expect_values<int32_t>(floor_divide(a, 0), {0, 0, 0, 0});
  expect_values<int32_t>(remainder(a, 0), {0, 0, 0, 0});
}

TEST(Integers, WhatTheyCannotBeIsAnErrorWithTheRemedy) {
  const Tensor a = ints({2}, {1, 2});
  EXPECT_EQ(message_of([&] { a / a; }),
            "div: the result of integers (int32[2] and int32[2]) is not an integer; use "
            "floor_divide(), or cast() them");
  EXPECT_EQ(
      message_of([&] { a + 0.5; }),
      "add_scalar: 0.5 cannot be represented as int32, the dtype of x (int32[2]); use cast()");
  EXPECT_EQ(message_of([&] { a + ones({2}, DType::i64); }),
            "add: both inputs must have the same dtype, but are int32[2] and int64[2]; use cast()");
  EXPECT_EQ(message_of([&] { floor_divide(zeros({2}), 2); }),
            "floor_divide: both inputs must be integers, but one is float32[2]; use / or cast()");
  EXPECT_EQ(message_of([&] { mean(a); }),
            "mean: x must be floating point, but is int32[2]; use cast()");
}

TEST(Integers, SumsAreOf64Bits) {
  const Tensor bytes = full({300, 7}, 255, DType::u8);
  EXPECT_EQ(sum(bytes).spec().text(), "int64[]");
  EXPECT_EQ(sum(bytes).item<int64_t>(), 300 * 7 * 255);
  expect_values<int64_t>(sum(bytes, {0}), std::vector<int64_t>(7, 300 * 255));
  expect_values<int64_t>(sum(from_vector<int64_t>({20000}, std::vector<int64_t>(20000, 1LL << 40))),
                         {20000 * (1LL << 40)});
}

TEST(Comparisons, GiveBytesForAnyDtype) {
  const Tensor a = from_vector<float>({4}, {1, 2, 3, std::nanf("")});
  const Tensor b = from_vector<float>({4}, {2, 2, 2, 2});
  expect_values<uint8_t>(less(a, b), {1, 0, 0, 0});
  expect_values<uint8_t>(less_equal(a, b), {1, 1, 0, 0});
  expect_values<uint8_t>(greater(a, b), {0, 0, 1, 0});
  expect_values<uint8_t>(greater_equal(a, b), {0, 1, 1, 0});
  expect_values<uint8_t>(equal(a, b), {0, 1, 0, 0});
  expect_values<uint8_t>(not_equal(a, b), {1, 0, 1, 1});
  expect_values<uint8_t>(equal(ints({3}, {1, 2, 3}), 2), {0, 1, 0});
  expect_values<uint8_t>(greater(ints({2, 1}, {1, 3}), ints({2}, {0, 2})), {1, 0, 1, 1});
}

TEST(Where, TakesFromOneOrTheOther) {
  const Tensor condition = from_vector<uint8_t>({2, 1}, {1, 0});
  expect_values<int32_t>(where(condition, ints({3}, {1, 2, 3}), ints({}, {9})), {1, 2, 3, 9, 9, 9});
  EXPECT_EQ(message_of([&] { where(ints({1}, {1}), ones({1}), ones({1})); }),
            "where: the condition must be uint8 (the result of a comparison), but is int32[1]");
}

// An accuracy and a loss for which there is no op.
TEST(Eager, IsEnoughForAMetricAndALossOfOnesOwn) {
  const Tensor logits = requires_grad(normal({5, 3}, 1));
  const Tensor labels = ints({5}, {0, 2, 1, 1, -1});
  const Tensor p = exp(logits) / sum(exp(logits), {1}, true);
  const Tensor hot = one_hot(labels, 3, DType::f64);
  const Tensor right = sum(p * hot, {1});
  expect_near(gather(p, 1, reshape(labels, {-1, 1})), right.to_vector<double>());
  const Tensor focal = mean(pow(1.0 - right, 2) * -log(right));
  EXPECT_GT(focal.item<double>(), 0);
  expect_gradients(
      [&](const Tensors& t) {
        const Tensor q = sum(exp(t[0]) / sum(exp(t[0]), {1}, true) * hot, {1});
        return mean(pow(1.0 - q, 2) * -log(q));
      },
      {normal({5, 3}, 1)});
}

TEST(Permute, MovesAxes) {
  const Tensor x = arange(24, DType::i32), y = reshape(x, {2, 3, 4});
  const Tensor z = permute(y, {2, 0, 1});
  EXPECT_EQ(z.shape(), (Shape{4, 2, 3}));
  const auto values = z.to_vector<int32_t>();
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 3; ++k)
        EXPECT_EQ(values[size_t((i * 2 + j) * 3 + k)], (j * 3 + k) * 4 + i);
  EXPECT_EQ(permute(z, {1, 2, 0}).to_vector<int32_t>(), x.to_vector<int32_t>());
  expect_values<int32_t>(transpose(reshape(arange(6, DType::i32), {2, 3})), {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(message_of([&] {
              permute(y, {0, 1});
            }),
            "permute: 2 axes are named, but x has 3 (int32[2x3x4])");
  EXPECT_EQ(message_of([&] {
              permute(y, {0, 1, -2});
            }),
            "permute: axis -2 is named twice (x int32[2x3x4])");
  EXPECT_EQ(message_of([&] { transpose(y, 0, 3); }),
            "transpose: axis 3 does not exist (x int32[2x3x4])");
}

TEST(Gather, TakesAlongAnAxis) {
  const Tensor x = reshape(arange(12, DType::i32), {3, 4});
  expect_values<int32_t>(gather(x, 1, ints({3, 2}, {3, 0, -1, -4, 1, 1})), {3, 0, 7, 4, 9, 9});
  expect_values<int32_t>(gather(x, 0, ints({1, 4}, {2, 1, 0, -1})), {8, 5, 2, 11});
  try {
    gather(x, 1, ints({3, 1}, {0, 4, 0}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "gather: index 1 is 4, but the axis has 4 elements");
  }
  EXPECT_EQ(message_of([&] {
              gather(x, 1, ints({2, 1}, {0, 0}));
            }),
            "gather: the indices must be integers, shaped like x except on axis 1 (x int32[3x4], "
            "indices int32[2x1])");
}

TEST(OneHot, IsOneAtTheLabel) {
  expect_values<float>(one_hot(ints({2}, {1, -1}), 3), {0, 1, 0, 0, 0, 1});
  EXPECT_EQ(one_hot(ints({2, 2}, {0, 1, 1, 0}), 2, DType::u8).spec().text(), "uint8[2x2x2]");
  EXPECT_THROW(one_hot(ints({1}, {3}), 3), Error);
}

TEST(Reshape, FindsTheSizeThatIsLeft) {
  const Tensor x = arange(12);
  EXPECT_EQ(reshape(x, {3, -1}).shape(), (Shape{3, 4}));
  EXPECT_EQ(reshape(x, {-1}).shape(), (Shape{12}));
  EXPECT_EQ(message_of([&] {
              reshape(x, {5, -1});
            }),
            "reshape: no size fits for -1: [12] has 12 elements, and the product of the other "
            "sizes is 5");
  EXPECT_THROW(reshape(x, {-1, -1}), ShapeError);
}

TEST(Rows, CountFromTheEndWhereNegative) {
  expect_values<float>(rows(arange(5), -3, -1), {2, 3});
  expect_values<float>(rows(arange(5), 1, -1), {1, 2, 3});
  EXPECT_THROW(rows(arange(5), -6, 2), ShapeError);
}

TEST(Printing, AlignsColumnsAndKnowsNoNegativeNaN) {
  const Tensor x = from_vector<double>({2, 2}, {1, -2.5, -std::nan(""), 1e10});
  EXPECT_EQ(x.text(), "[[    1,  -2.5],\n [  nan, 1e+10]]");
  std::ostringstream out;
  out << ints({3}, {1, -20, 3}) << " " << scalar(2.5);
  EXPECT_EQ(out.str(), "[  1, -20,   3] 2.5");
  EXPECT_EQ(from_vector<int64_t>({1}, {(1LL << 60) + 1}).text(), "[1152921504606846977]");
}

}  // namespace
}  // namespace tessera
