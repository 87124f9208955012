#include "tessera/engine/gradient_check.h"

#include "tessera/engine/pointwise.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(Autograd, AWrongGradientIsCaught) {
  ScalarBuilder b(1), g(2);
  ScalarProgram square = b.build(b.mul(0, 0));
  // Computes x * dy instead of 2 * x * dy.
  PointwiseGrad wrong{{PointwiseGrad::kGradient, 0}, g.build(g.mul(0, 1))};
  auto result = check_gradients(
      [&](const Tensors& t) { return pointwise("square", square, {t[0]}, {wrong}); },
      {normal({3}, 6)});
  EXPECT_FALSE(result);
  EXPECT_NE(result.report.find("largest difference at element"), std::string::npos);
}

}  // namespace
}  // namespace tessera
