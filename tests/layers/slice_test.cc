#include "tessera/layers/ops/slice.h"

#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(Slice, HandComputed) {
  const Tensor x = counted({2, 3, 4});
  expect_near(slice(x, 1, 1, 3), {5, 6, 7, 8, 9, 10, 11, 12, 17, 18, 19, 20, 21, 22, 23, 24});
  expect_near(slice(x, -1, 0, 4, 3), {1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24});
  expect_near(slice(x, 0, 1, 2),
              slice(x, {.begin = {1}, .step = {1, 1, 1}, .size = {1, 3, 4}}).to_vector<double>());
  EXPECT_EQ(slice(x, 2, 1, 1).shape(), Shape({2, 3, 0}));
}

TEST(Slice, OutsideIsZero) {
  const Tensor x = counted({2, 2});
  expect_near(pad(x, -1, 1, 2), {0, 1, 2, 0, 0, 0, 3, 4, 0, 0});
  expect_near(pad(x, 0, 1, 0), {0, 0, 1, 2, 3, 4});
  // Starts before x and ends after it, with step 2.
  expect_near(slice(counted({3}), {.begin = {-2}, .step = {2}, .size = {4}}), {0, 1, 3, 0});
  expect_near(slice(counted({3}), {.begin = {-1}, .step = {2}, .size = {3}}), {0, 2, 0});
  expect_near(slice(counted({3}), {.begin = {5}, .step = {1}, .size = {2}}), {0, 0});
  expect_near(slice(counted({3}), {.begin = {-9}, .step = {1}, .size = {2}}), {0, 0});
}

TEST(Slice, TakesEveryDtype) {
  const Tensor x = from_vector<uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(slice(x, 1, 1, 3).to_vector<uint8_t>(), (std::vector<uint8_t>{2, 3, 5, 6}));
}

TEST(Slice, GradientsMatchDifferences) {
  const SliceParams boxes[] = {
      {.begin = {1, 0, -1}, .step = {1, 2, 1}, .size = {2, 2, 7}},
      {.begin = {-1, 1, 4}, .step = {2, 1, 3}, .size = {3, 5, 3}},
  };
  for (const SliceParams& box : boxes) {
    expect_gradients([&](const Tensors& in) { return slice(in[0], box); }, {normal({3, 4, 5}, 2)});
  }
}

TEST(Slice, ErrorsExplain) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(message_of([&] { slice(x, 1, 1, 4); }),
            "slice: [1, 4) must be within axis 1, which has 3 elements (x float32[2x3])");
  EXPECT_EQ(message_of([&] { slice(x, 2, 0, 1); }),
            "slice: axis must be in [-2, 1], but is 2 (x float32[2x3])");
  EXPECT_EQ(message_of([&] { slice(x, 1, 0, 1, 0); }),
            "slice: the step must be at least 1, but is 0 (x float32[2x3])");
  EXPECT_EQ(message_of([&] { slice(x, {.size = {2}}); }),
            "slice: the box [2] must have as many axes as x (x float32[2x3])");
  EXPECT_EQ(message_of([&] { pad(x, 0, -1, 0); }),
            "pad: counts of zeros must be >= 0, but are -1 and 0 (x float32[2x3])");
}

}  // namespace
}  // namespace tessera
