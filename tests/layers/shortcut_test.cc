#include "tessera/layers/ops/slice.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

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
            "shortcut: y must not have fewer channels than x, but has 6 (x float32[1x4x4x8])");
  EXPECT_EQ(message_of([&] { shortcut(x, {.stride = 0, .channels = 8}); }),
            "shortcut: stride must be at least 1, but is 0 (x float32[1x4x4x8])");
}

}  // namespace
}  // namespace tessera
