#include "tessera/layers/ops/concat.h"

#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

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
  EXPECT_EQ(
      message_of([] {
        concat({zeros({2, 3}), zeros({3, 3})}, 1);
      }),
      "concat: the sizes must be equal along every axis except 1 (float32[2x3], float32[3x3])");
  EXPECT_EQ(message_of([] {
              concat({zeros({2, 3})}, 2);
            }),
            "concat: axis must be between -2 and 1, but is 2 (float32[2x3])");
  EXPECT_EQ(message_of([] { concat({}); }), "concat: needs 1 to 32 tensors, but got 0");
  EXPECT_EQ(message_of([] {
              concat({zeros({2}), zeros({2}, DType::f64)});
            }),
            "concat: the tensors must have the same dtype; use cast() (float32[2], float64[2])");
}

TEST(Stack, PutsANewAxisAnywhere) {
  const Tensor a = counted({2, 3}), b = a + 10.0;
  EXPECT_EQ(stack({a, b}).shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(stack({a, b}, 1).to_vector<double>(),
            (std::vector<double>{1, 2, 3, 11, 12, 13, 4, 5, 6, 14, 15, 16}));
  EXPECT_EQ(stack({a, b}, -1).shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(message_of([&] {
              stack({a, b}, 3);
            }),
            "stack: a new axis cannot be inserted at 3 (x0 float64[2x3])");
  EXPECT_EQ(message_of([&] {
              stack({a, counted({3, 2})});
            }),
            "stack: all tensors must have the same shape, but are float64[2x3] and float64[3x2]");
  EXPECT_EQ(message_of([&] { stack({}); }), "stack: there must be at least one tensor");
}

}  // namespace
}  // namespace tessera
