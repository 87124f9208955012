#include "tessera/layers/ops/scale_channels.h"

#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

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
            "scale_channels: scale must be [2x4] (one for each channel of each sample of x), but "
            "is [2x3] (x float32[2x3x3x4], scale float32[2x3])");
}

}  // namespace
}  // namespace tessera
