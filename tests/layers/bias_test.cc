#include "tessera/layers/ops/linear.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(Bias, AddsAChannelVector) {
  const Tensor x = from_vector<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = from_vector<float>({3}, {10, 20, 30});
  EXPECT_EQ(bias(x, b).to_vector<float>(), (std::vector<float>{11, 22, 33, 14, 25, 36}));
  const auto result = check_gradients([](const Tensors& t) { return bias(t[0], t[1]); },
                                      {normal({2, 3, 2, 5}, 1), normal({5}, 2)});
  EXPECT_TRUE(result) << result.report;
  EXPECT_EQ(message_of([&] { bias(x, zeros({2})); }),
            "bias: b must be [3] (one value for each channel of x), but is [2] (x float32[2x3], b "
            "float32[2])");
  EXPECT_EQ(message_of([&] { bias(scalar(1), zeros({1})); }),
            "bias: x must have at least one axis (x float32[], b float32[1])");
}

}  // namespace
}  // namespace tessera
