#include "tessera/layers/ops/group_norm.h"

#include "tessera/layers/ops/layer_norm.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

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

}  // namespace
}  // namespace tessera
