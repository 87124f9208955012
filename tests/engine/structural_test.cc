#include "tessera/engine/structural.h"

#include <cmath>

#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(Autograd, StructuralOps) {
  Tensor x = normal({4, 3, 2}, 5);
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return reshape(t[0], {6, 4}); }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return rows(t[0], 1, 3) * 2.0; }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return sum_to(t[0], {3, 1}); }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return mean(t[0]) * t[0]; }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return expand(t[0], {5, 4, 3, 2}); }, {x}));
  EXPECT_TRUE(check_gradients([](const Tensors& t) { return copy(t[0]) * t[0]; }, {x}));
}

TEST(Autograd, SumsAndMeansOverAxes) {
  const Tensor x = normal({2, 3, 4}, 5);
  EXPECT_EQ(sum(x, {1}).shape(), Shape({2, 4}));
  EXPECT_EQ(mean(x, {0, -1}, true).shape(), Shape({1, 3, 1}));
  EXPECT_EQ(sum(x, {}).shape(), x.shape());
  EXPECT_NEAR(sum(mean(x, {1, 2})).item<double>() * 12, sum(x).item<double>(), 1e-12);
  for (const std::vector<int>& axes : {std::vector{0}, {1}, {-1}, {0, 2}, {2, 1, 0}}) {
    EXPECT_TRUE(check_gradients([&](const Tensors& t) { return sum(t[0], axes); }, {x}));
    EXPECT_TRUE(check_gradients([&](const Tensors& t) { return mean(t[0], axes, true); }, {x}));
  }
  EXPECT_THROW(sum(x, {3}), ShapeError);
  EXPECT_THROW(sum(x, {1, -2}), ShapeError);
}

// PyTorch's values.
TEST(Autograd, VarianceOverAxes) {
  const Tensor x =
      requires_grad(from_vector<double>({3, 4}, {1, 2, 4, 8, 0.5, -1, 3, -2, 7, 7, 7, 7}));
  const auto expect = [](const Tensor& y, const Shape& shape, const std::vector<double>& wanted) {
    EXPECT_EQ(y.shape(), shape);
    expect_near(y, wanted, 1e-14);
  };
  expect(var(x), {}, {12.505681818181818});
  expect(var(x, {1}), {3}, {9.583333333333334, 4.729166666666667, 0});
  expect(var(x, {0}, true), {1, 4},
         {13.083333333333332, 16.333333333333336, 4.333333333333333, 30.333333333333336});
  expect(var(x, {0, 1}, false, 0), {}, {11.463541666666666});
  expect(var(x, {-1}, false, 2), {3}, {14.375, 7.09375, 0});
  EXPECT_TRUE(std::isnan(var(from_vector<double>({1}, {3})).item<double>()));
  EXPECT_TRUE(std::isnan(var(x, {0}, false, 3).to_vector<double>()[0]));
  const Tensor dy = from_vector<double>({3}, {1, 2, 3});
  expect(gradients(var(x, {1}), std::span(&x, 1), dy)[0], {3, 4},
         {-1.8333333333333333, -1.1666666666666665, 0.16666666666666666, 2.833333333333333, 0.5,
          -1.5, 3.833333333333333, -2.833333333333333, 0, 0, 0, 0});
  for (const std::vector<int>& axes : {std::vector{0}, {1}, {-1}, {0, 2}, {2, 1, 0}})
    expect_gradients([&](const Tensors& t) { return var(t[0], axes, true, 0.5); },
                     {normal({2, 3, 4}, 5)});
  EXPECT_THROW(var(ones({2}, DType::i32)), ShapeError);
}

// Compares column sums exactly: the values are integers, so every order gives the same sum. Widths
// cover one column, several rows per vector, whole vectors and more.
template <class T>
void expect_exact_sums(int64_t rows, int64_t columns) {
  std::vector<T> values(rows * columns), want(columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    values[i] = static_cast<T>(i * 7919 % 101 - 50);
    want[i % columns] += values[i];
  }
  EXPECT_EQ(sum(from_vector<T>({rows, columns}, values), {0}).template to_vector<T>(), want)
      << rows << " rows of " << columns;
}

TEST(Sums, OfRowsOfAnyWidth) {
  for (const int64_t columns : {1, 2, 3, 6, 7, 16, 17, 31, 32, 33, 64, 65, 130})
    for (const int64_t rows : {1, 3, 4, 8, 9, 33, 64, 1000}) {
      expect_exact_sums<float>(rows, columns);
      expect_exact_sums<double>(rows, columns);
    }
}

}  // namespace
}  // namespace tessera
