#include "tessera/engine/tensor.h"

#include <gtest/gtest.h>

#include "tessera/engine/structural.h"

namespace tessera {
namespace {

TEST(Tensor, PrintsLikeNumpy) {
  EXPECT_EQ(arange(4).text(), "[0, 1, 2, 3]");
  EXPECT_EQ(reshape(arange(4, DType::i32), {2, 2}).text(), "[[0, 1],\n [2, 3]]");
  EXPECT_EQ(scalar(2.5).text(), "2.5");
  EXPECT_NE(zeros({2000}).text().find("..."), std::string::npos);
}

}  // namespace
}  // namespace tessera
