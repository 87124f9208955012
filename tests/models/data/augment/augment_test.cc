#include "tessera/models/data/augment/augment.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;

constexpr ImageShape kShape{4, 5, 2};

Bytes numbered(const ImageShape& shape) {  // 1, 2, 3 ...: no byte is 0
  Bytes image(static_cast<size_t>(shape.bytes()));
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<uint8_t>(i + 1);
  return image;
}

Bytes run(const Transforms& augment, int64_t sample, AugmentKey key = {}) {
  Bytes scratch(static_cast<size_t>(scratch_bytes(augment, kShape)));
  Bytes image = numbered(kShape), out(static_cast<size_t>(output_shape(augment, kShape).bytes()));
  std::copy(image.begin(), image.end(), scratch.begin());
  augment_image(augment, key, sample, kShape, scratch.data(), out.data());
  return out;
}

// Returns the image moved so that pixel (y, x) shows (y + dy, x + dx); outside: black or mirrored.
Bytes moved(int dy, int dx, CropBorder border) {
  auto at = [&](int i, int size) {
    if (i >= 0 && i < size) return i;
    if (border == CropBorder::kZero) return -1;
    return i < 0 ? -i : 2 * size - 2 - i;
  };
  Bytes from = numbered(kShape), out;
  for (int y = 0; y < kShape.height; ++y) {
    for (int x = 0; x < kShape.width; ++x) {
      int sy = at(y + dy, kShape.height), sx = at(x + dx, kShape.width);
      for (int c = 0; c < kShape.channels; ++c) {
        int i = (sy * kShape.width + sx) * kShape.channels + c;
        out.push_back(sy < 0 || sx < 0 ? 0 : from[static_cast<size_t>(i)]);
      }
    }
  }
  return out;
}

TEST(AugmentTest, CropReachesEveryPlaceAndNoOther) {
  for (CropBorder border : {CropBorder::kZero, CropBorder::kReflect}) {
    auto key = [](const Bytes& image) { return std::string(image.begin(), image.end()); };
    std::map<std::string, int> places;
    for (int dy = -2; dy <= 2; ++dy) {
      for (int dx = -2; dx <= 2; ++dx) places[key(moved(dy, dx, border))] = 0;
    }
    ASSERT_EQ(places.size(), 25u);
    for (int64_t sample = 0; sample < 5000; ++sample) {
      auto found = places.find(key(run({crop(2, border)}, sample)));
      ASSERT_NE(found, places.end()) << "sample " << sample;
      ++found->second;
    }
    for (const auto& [image, times] : places) EXPECT_NEAR(times, 200, 70);
  }
}

TEST(AugmentTest, FlipMirrorsHalf) {
  Bytes plain = numbered(kShape), mirrored;
  for (int y = 0; y < kShape.height; ++y) {
    for (int x = kShape.width - 1; x >= 0; --x) {
      for (int c = 0; c < 2; ++c) {
        mirrored.push_back(plain[static_cast<size_t>((y * kShape.width + x) * 2 + c)]);
      }
    }
  }
  int flips = 0;
  for (int64_t sample = 0; sample < 1000; ++sample) {
    Bytes out = run({flip_horizontal()}, sample);
    ASSERT_TRUE(out == plain || out == mirrored);
    flips += out == mirrored;
    EXPECT_EQ(run({flip_horizontal(1)}, sample), mirrored);
    EXPECT_EQ(run({flip_horizontal(0)}, sample), plain);
  }
  EXPECT_NEAR(flips, 500, 80);
}

TEST(AugmentTest, AVerticalFlipReversesTheRows) {
  const Bytes plain = numbered(kShape), out = run({flip_vertical(1)}, 3);
  const int64_t row = kShape.width * kShape.channels;
  for (int64_t y = 0; y < kShape.height; ++y)
    for (int64_t i = 0; i < row; ++i)
      ASSERT_EQ(out[static_cast<size_t>(y * row + i)],
                plain[static_cast<size_t>((kShape.height - 1 - y) * row + i)]);
  EXPECT_EQ(run({flip_vertical(0)}, 3), plain);
  EXPECT_EQ(run({flip_vertical(1), flip_horizontal(1)}, 3),
            run({rotate(0), flip_horizontal(1), flip_vertical(1)}, 3));
}

TEST(AugmentTest, StepsRunInOrderWithNumbersOfTheirOwn) {
  // Two flips cancel each other. So would two random flips if they drew the same number.
  Transforms twice = {flip_horizontal(1), flip_horizontal(1)};
  Transforms chance = {flip_horizontal(), flip_horizontal()};
  int differ = 0;
  for (int64_t sample = 0; sample < 100; ++sample) {
    EXPECT_EQ(run(twice, sample), numbered(kShape));
    differ += run(chance, sample) != numbered(kShape);
  }
  EXPECT_GT(differ, 20);
  EXPECT_EQ(run({}, 0), numbered(kShape));
}

TEST(AugmentTest, NumbersDependOnSeedEpochAndSample) {
  Transforms augment = {crop(3), flip_horizontal()};
  Bytes base = run(augment, 7, {1, 2});
  EXPECT_EQ(run(augment, 7, {1, 2}), base);
  int same_seed = 0, same_epoch = 0, same_sample = 0;
  for (int64_t i = 0; i < 50; ++i) {
    same_seed += run(augment, 7, {static_cast<uint64_t>(100 + i), 2}) == base;
    same_epoch += run(augment, 7, {1, 100 + i}) == base;
    same_sample += run(augment, 100 + i, {1, 2}) == base;
  }
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(same_sample, 10);
}

// Doubles the height: a transform in the middle of a list that changes the shape.
class Double : public Transform {
 public:
  std::string describe() const override { return "double"; }
  ImageShape output(const ImageShape& in) const override {
    return {2 * in.height, in.width, in.channels};
  }
  void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
             RandomSequence&) const override {
    std::copy(in, in + shape.bytes(), out);
    std::copy(in, in + shape.bytes(), out + shape.bytes());
  }
};

TEST(AugmentTest, AStepMayChangeTheShape) {
  Transforms augment = {flip_horizontal(1), std::make_shared<Double>(), flip_horizontal(1)};
  EXPECT_EQ(output_shape(augment, kShape), (ImageShape{8, 5, 2}));
  EXPECT_EQ(scratch_bytes(augment, kShape), 160);
  Bytes expected = numbered(kShape);
  expected.insert(expected.end(), expected.begin(), expected.end());
  EXPECT_EQ(run(augment, 0), expected);
}

TEST(AugmentTest, BadSettings) {
  expect_error<ConfigError>([] { crop(-1); }, {"crop: padding -1"});
  expect_error<ConfigError>([] { flip_horizontal(1.5); }, {"flip: probability 1.5"});
  for (const CropBorder border : {CropBorder::kZero, CropBorder::kReflect}) {
    expect_error<ConfigError>([&] { output_shape({crop(4, border)}, kShape); },
                              {"crop: padding must be less", "is 4 for", "[4x5x2]"});
    EXPECT_EQ(output_shape({crop(3, border)}, kShape), kShape);
  }
  EXPECT_EQ(crop(4)->describe(), "crop padding 4");
}

}  // namespace
}  // namespace tessera
