#include "tessera/runtime/text/spelling.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Spelling, FindsTheNearestName) {
  const std::vector<std::string> known = {"lenet5", "resnet20", "resnet18", "mlp"};
  EXPECT_EQ(nearest_spelling("lente5", known), "lenet5");
  EXPECT_EQ(nearest_spelling("resnet2", known), "resnet20");
  EXPECT_EQ(nearest_spelling("mpl", known), "mlp");
  EXPECT_EQ(nearest_spelling("transformer", known), "");
  EXPECT_EQ(nearest_spelling("", known), "");
  EXPECT_EQ(nearest_spelling(std::string(100000, 'x'), known), "");
}

}  // namespace
}  // namespace tessera
