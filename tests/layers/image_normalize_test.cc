#include "tessera/layers/ops/image_normalize.h"

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(ImageNormalize, FollowsItsFormulaForEveryByte) {
  std::vector<uint8_t> bytes(256 * 2);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i / 2);
  const Tensor x = from_vector({1, 16, 16, 2}, bytes);
  const ImageNormalizeParams params{.mean = {0.5, 0.25}, .stddev = {0.25, 2}};
  const Tensor y = image_normalize(x, params);
  EXPECT_EQ(y.spec(), (TensorSpec{DType::f32, {1, 16, 16, 2}, {}}));
  const auto values = y.to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_FLOAT_EQ(values[i],
                    static_cast<float>((static_cast<double>(i / 2) / 255 - params.mean[i % 2]) /
                                       params.stddev[i % 2]));
  }
}

TEST(ImageNormalize, MakesFloat64AndManyPixels) {
  const Tensor x = full({3, 50, 50, 1}, 51, DType::u8);
  const Tensor y = image_normalize(x, {.mean = {0}, .stddev = {1}, .dtype = DType::f64});
  for (double value : y.to_vector<double>()) ASSERT_DOUBLE_EQ(value, 0.2);
}

TEST(ImageNormalize, SettingsThatDoNotFitAreExplained) {
  const auto message_of = [](const Tensor& x, const ImageNormalizeParams& params) -> std::string {
    try {
      image_normalize(x, params);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "no ShapeError";
  };
  const Tensor x = zeros({1, 2, 2, 3}, DType::u8);
  EXPECT_EQ(message_of(x, {.mean = {0, 0}, .stddev = {1, 1, 1}}),
            "image_normalize: mean and deviation must have one value for each channel, but have 2 "
            "and 3 (x uint8[1x2x2x3])");
  EXPECT_EQ(message_of(x, {.mean = {0, 0, 0}, .stddev = {1, 0, 1}}),
            "image_normalize: deviations must be positive, but one is 0 (x uint8[1x2x2x3])");
  EXPECT_EQ(message_of(zeros({3}), {.mean = {0, 0, 0}, .stddev = {1, 1, 1}}),
            "image_normalize: x must be uint8, but is float32; use cast() (x float32[3])");
}

}  // namespace
}  // namespace tessera
