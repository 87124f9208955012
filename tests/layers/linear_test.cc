#include "tessera/layers/ops/linear.h"

#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TESSERA_UNDER_EACH_KERNELS(Linear);

TEST_P(Linear, IsXTimesWTransposedPlusB) {
  const Tensor x = from_vector<float>({1, 2}, {1, 2});
  const Tensor w = from_vector<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const Tensor b = from_vector<float>({3}, {0, 0, 10});
  EXPECT_EQ(linear(x, w, b).to_vector<float>(), (std::vector<float>{1, 2, 13}));
  EXPECT_EQ(linear(x, w).to_vector<float>(), (std::vector<float>{1, 2, 3}));
  const auto result = check_gradients([](const Tensors& t) { return linear(t[0], t[1], t[2]); },
                                      {normal({1, 7}, 1), normal({3, 7}, 2), normal({3}, 3)});
  EXPECT_TRUE(result) << result.report;
  EXPECT_EQ(message_of([&] {
              linear(x, zeros({3, 4}), b);
            }),
            "linear: x has 2 features, but w expects 4 (x float32[1x2], w float32[3x4])");
}

}  // namespace
}  // namespace tessera
