#include "tessera/engine/tensor.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/structural.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(Tensor, PrintsLikeNumpy) {
  EXPECT_EQ(arange(4).text(), "[0, 1, 2, 3]");
  EXPECT_EQ(reshape(arange(4, DType::i32), {2, 2}).text(), "[[0, 1],\n [2, 3]]");
  EXPECT_EQ(scalar(2.5).text(), "2.5");
  EXPECT_NE(zeros({2000}).text().find("..."), std::string::npos);
}

TEST(Tensor, ArangeGoesFromFirstToLastByStep) {
  EXPECT_EQ(arange(2, 8).text(), "[2, 3, 4, 5, 6, 7]");
  EXPECT_EQ(arange(5, -4, -2, DType::i32).to_vector<int32_t>(),
            (std::vector<int32_t>{5, 3, 1, -1, -3}));
  EXPECT_EQ(arange(0, 1, 0.1, DType::f64).to_vector<double>(),
            (std::vector<double>{0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5, 0.6000000000000001,
                                 0.7000000000000001, 0.8, 0.9}));  // PyTorch's values
  EXPECT_EQ(arange(1, 1).elements(), 0);
  for (const double step : {0.0, -1.0, std::nan("")})
    EXPECT_THROW(arange(2, 8, step), ShapeError) << step;
  EXPECT_EQ(arange(0.5, 3, 1, DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace tessera
