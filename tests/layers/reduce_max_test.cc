#include "tessera/layers/ops/reduce_max.h"

#include <cmath>
#include <limits>

#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(ReduceMax, HandComputed) {
  const Tensor x = from_vector<double>({2, 3}, {1, 5, 2,  //
                                                7, 0, 7});
  expect_near(max(x, 1), {5, 7});
  expect_near(max(x, -2), {7, 5, 7});
  EXPECT_EQ(argmax(x, 1).to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(argmax(x, 0).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(max(x, 1).shape(), Shape({2}));
  EXPECT_EQ(max(x, 1, true).shape(), Shape({2, 1}));
}

TEST(ReduceMax, GradientsMatchDifferences) {
  for (int axis : {0, 1, 2, -1}) {
    expect_gradients([&](const Tensors& in) { return max(in[0], axis); }, {spread({3, 4, 5})});
    expect_gradients([&](const Tensors& in) { return max(in[0], axis, true); },
                     {spread({1, 7, 2})});
  }
}

TEST(ReduceMax, TheFirstOfEqualsGetsTheGradient) {
  const Tensor x = requires_grad(ones({2, 3}, DType::f64));
  const Tensor dx = gradients(max(x, 1), std::span(&x, 1), from_vector<double>({2}, {3, 4}))[0];
  expect_near(dx, {3, 0, 0, 4, 0, 0});
}

TEST(ReduceMax, NanIsTheLargest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = from_vector<double>({3}, {1, nan, 2});
  EXPECT_TRUE(std::isnan(max(x, 0).item<double>()));
  EXPECT_EQ(argmax(x, 0).item<int64_t>(), 1);
}

TEST(ReduceMax, ErrorsExplain) {
  EXPECT_EQ(message_of([] {
              max(ones({2, 3}), 2);
            }),
            "max: axis 2 does not exist (x float32[2x3])");
  EXPECT_EQ(message_of([] {
              max(ones({2, 0}), 1);
            }),
            "max: axis 1 has no elements (x float32[2x0])");
}

}  // namespace
}  // namespace tessera
