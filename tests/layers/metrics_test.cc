#include "tessera/layers/ops/metrics.h"

#include <limits>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(TopKCorrect, CountsLabelsAmongTheLargest) {
  const Tensor z = from_vector<float>({3, 4}, {1, 4, 2, 3,  //
                                               9, 8, 7, 6,  //
                                               0, 0, 1, -1});
  const Tensor labels = from_vector<int32_t>({3}, {3, 0, 3});
  EXPECT_EQ(top_k_correct(z, labels).item<float>(), 1);
  EXPECT_EQ(top_k_correct(z, labels, 2).item<float>(), 2);
  EXPECT_EQ(top_k_correct(z, labels, 4).item<float>(), 3);
}

TEST(TopKCorrect, TiesNaNsAndBadLabelsFavourNobody) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor ties = from_vector<float>({2, 2}, {5, 5, 5, 5});
  EXPECT_EQ(top_k_correct(ties, from_vector<int32_t>({2}, {0, 1})).item<float>(), 1);
  const Tensor nans = from_vector<float>({3, 2}, {nan, nan, nan, 1, 1, nan});
  EXPECT_EQ(top_k_correct(nans, from_vector<int32_t>({3}, {0, 1, 1})).item<float>(), 0);
  EXPECT_EQ(top_k_correct(ties, from_vector<int32_t>({2}, {-1, 2}), 2).item<float>(), 0);
}

TEST(TopKCorrect, ShapesThatDoNotFitAreExplained) {
  const Tensor z = zeros({3, 4});
  const auto message_of = [&](const Tensor& labels, int64_t k) -> std::string {
    try {
      top_k_correct(z, labels, k);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "no ShapeError";
  };
  EXPECT_EQ(message_of(zeros({3}, DType::i32), 0),
            "top_k_correct: k must be at least 1, but is 0 (logits float32[3x4], labels int32[3])");
  EXPECT_EQ(message_of(zeros({2}, DType::i32), 1),
            "top_k_correct: labels must be [3] (one label for each row of logits), but is [2] "
            "(logits float32[3x4], labels int32[2])");
  EXPECT_EQ(message_of(zeros({3}), 1),
            "top_k_correct: labels must be int32, but is float32; use cast() (logits float32[3x4], "
            "labels float32[3])");
}

}  // namespace
}  // namespace tessera
