#include "tessera/models/data/augment/colour.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <zlib.h>

#include "tessera/models/data/augment/augment.h"
#include "tessera/models/data/images/resample.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;

// Pictures and their changes by Pillow and torchvision (tests/golden/README.md).
const golden::File& file() {
  static golden::File file(TESSERA_SOURCE_DIR "/tests/golden/pictures.h5");
  return file;
}

Bytes bytes_of(const golden::Array& array) { return {array.values.begin(), array.values.end()}; }

ImageShape shape_of(const golden::Array& array) {
  return {static_cast<int>(array.shape[0]), static_cast<int>(array.shape[1]),
          static_cast<int>(array.shape[2])};
}

using Change = std::function<void(const ImageShape&, const Bytes& in, Bytes& out, double setting)>;

// Compares the change with the golden file; each byte may differ by at most `off`.
void expect_change(const std::string& name, const Change& change, int off = 0) {
  SCOPED_TRACE(name);
  golden::Array in = file().read("colour/in");
  Bytes image = bytes_of(in), expected = bytes_of(file().read("colour/" + name + "/out"));
  auto settings = file().read("colour/" + name + "/settings").values;
  ASSERT_EQ(expected.size(), settings.size() * image.size());
  for (size_t i = 0; i < settings.size(); ++i) {
    SCOPED_TRACE(settings[i]);
    Bytes out = image;
    change(shape_of(in), image, out, settings[i]);
    int worst = 0;
    for (size_t k = 0; k < out.size(); ++k)
      worst = std::max(worst, std::abs(out[k] - expected[i * out.size() + k]));
    EXPECT_LE(worst, off);
  }
}

Change in_place(void (*change)(const ImageShape&, uint8_t*, double)) {
  return [change](const ImageShape& shape, const Bytes&, Bytes& out, double setting) {
    change(shape, out.data(), setting);
  };
}

Change warped(Affine (*matrix)(const ImageShape&, double)) {
  return [matrix](const ImageShape& shape, const Bytes& in, Bytes& out, double setting) {
    warp(shape, in.data(), out.data(), matrix(shape, setting));
  };
}

const std::map<std::string, Change>& exact_changes() {
  static const std::map<std::string, Change> changes = {
      {"brightness", in_place(change_brightness)},
      {"contrast", in_place(change_contrast)},
      {"saturation", in_place(change_saturation)},
      {"sharpness", [](auto& shape, auto& in, auto& out,
                       double factor) { change_sharpness(shape, in.data(), out.data(), factor); }},
      {"solarize", in_place(solarize)},
      {"posterize", [](auto& shape, auto&, auto& out,
                       double bits) { posterize(shape, out.data(), static_cast<int>(bits)); }},
      {"stretch_contrast",
       [](auto& shape, auto&, auto& out, double) { stretch_contrast(shape, out.data()); }},
      {"equalize", [](auto& shape, auto&, auto& out, double) { equalize(shape, out.data()); }},
      {"rotate", warped(rotation)},
      {"shear_x", warped([](auto&, double s) { return Affine{1, s, 0, 0, 1, 0}; })},
      {"shear_y", warped([](auto&, double s) { return Affine{1, 0, 0, s, 1, 0}; })},
      {"move_x", warped([](auto&, double d) { return Affine{1, 0, d, 0, 1, 0}; })},
  };
  return changes;
}

TEST(ColourTest, TheSameAsPillow) {
  for (const auto& [name, change] : exact_changes()) expect_change(name, change);
}

TEST(ColourTest, HueTurnsAsInRealNumbers) { expect_change("hue", in_place(change_hue), 1); }

// Picture i of the golden script.
std::pair<ImageShape, Bytes> picture(int64_t i) {
  const int64_t height = 9 + i % 17, width = 8 + 3 * i % 29;
  Bytes pixels;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t noise =
            (x * 7919 + y * 104729 + c * 1299709) * 2654435761 % (int64_t{1} << 32) >> 27;
        const int64_t slope = 20 + 150 * x / width + 50 * y / height * (c + 1) / 2;
        const int64_t block = 60 * ((x / 5 + y / 7 + c) % 2);
        const int64_t value =
            std::min<int64_t>(slope + block + noise, 255) * (2 + i % 4) / 4 + i % 7;
        pixels.push_back(static_cast<uint8_t>(std::min<int64_t>(value, 255)));
      }
  return {{static_cast<int>(height), static_cast<int>(width), 3}, std::move(pixels)};
}

TEST(ColourTest, TheSameAsTorchvisionOn100Pictures) {
  for (const auto& [name, change] : exact_changes()) {
    const std::vector<double> settings = file().read("torchvision/" + name + "/settings").values;
    const std::vector<double> sums = file().read("torchvision/" + name + "/crc32").values;
    ASSERT_EQ(settings.size(), 100u);
    for (size_t i = 0; i < settings.size(); ++i) {
      const auto [shape, image] = picture(static_cast<int64_t>(i));
      Bytes out = image;
      change(shape, image, out, settings[i]);
      EXPECT_EQ(crc32_z(0, out.data(), out.size()), static_cast<uint32_t>(sums[i]))
          << name << " by " << settings[i] << ", picture " << i;
    }
  }
}

// Compares images, one after the other, with those of the golden file.
void expect_within_one(const std::string& name, const Bytes& found) {
  const Bytes expected = bytes_of(file().read("torchvision/" + name + "/out"));
  ASSERT_EQ(found.size(), expected.size());
  int worst = 0;
  for (size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  EXPECT_LE(worst, 1) << name;
}

// Pillow 13 begins with the rows where these shrink most, which rounds otherwise.
TEST(ColourTest, ResizedPartsAreWithinOneOfTorchvisions) {
  const std::vector<double> settings = file().read("torchvision/resized_crop/settings").values;
  Resampler resampler;
  Bytes all;
  for (size_t i = 0; i < settings.size() / 6; ++i) {
    const auto [shape, image] = picture(static_cast<int64_t>(i));
    int of[6];
    std::copy_n(settings.begin() + static_cast<int64_t>(6 * i), 6, of);
    const ImageShape scaled{of[4], of[5], 3};
    Bytes out(static_cast<size_t>(scaled.bytes()));
    resize_image(resampler, shape, {of[0], of[1], of[2], of[3]}, image.data(), scaled, out.data());
    all.insert(all.end(), out.begin(), out.end());
  }
  expect_within_one("resized_crop", all);
}

TEST(ColourTest, HuesAreWithinOneOfTorchvisions) {
  const std::vector<double> turns = file().read("torchvision/hue/settings").values;
  Bytes all;
  for (size_t i = 0; i < turns.size(); ++i) {
    auto [shape, image] = picture(static_cast<int64_t>(i));
    change_hue(shape, image.data(), turns[i]);
    all.insert(all.end(), image.begin(), image.end());
  }
  expect_within_one("hue", all);
}

Bytes run(const Transforms& augment, const ImageShape& shape, const Bytes& image, int64_t sample) {
  Bytes scratch(static_cast<size_t>(scratch_bytes(augment, shape)));
  Bytes out(static_cast<size_t>(output_shape(augment, shape).bytes()));
  std::copy(image.begin(), image.end(), scratch.begin());
  augment_image(augment, {3, 1}, sample, shape, scratch.data(), out.data());
  return out;
}

TEST(ColourTest, JitterStaysWithinItsFactors) {
  ImageShape shape{2, 2, 3};
  Bytes gray(12, 100);
  std::set<int> levels;
  for (int64_t sample = 0; sample < 300; ++sample) {
    Bytes out = run({color_jitter({.brightness = 0.4})}, shape, gray, sample);
    EXPECT_GE(out[0], 60);
    EXPECT_LE(out[0], 140);
    levels.insert(out[0]);
    // A uniform gray has no contrast, saturation or hue to change.
    EXPECT_EQ(run({color_jitter({0, 0.4, 0.4, 0.5})}, shape, gray, sample), gray);
  }
  EXPECT_LE(*levels.begin(), 65);
  EXPECT_GE(*levels.rbegin(), 135);
  Bytes one(4, 7);  // one channel
  EXPECT_EQ(run({color_jitter({0, 0, 0.4, 0.5})}, {2, 2, 1}, one, 5), one);
}

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(ColourTest, RandAugmentDrawsEveryChange) {
  golden::Array in = file().read("colour/in");
  ImageShape shape = shape_of(in);
  Bytes image = bytes_of(in);
  std::set<std::string> results;
  for (int64_t sample = 0; sample < 600; ++sample)
    results.insert(text(run(rand_augment(1, 9), shape, image, sample)));
  // Eight changes have a sign (two results each), five have none, one leaves the image.
  EXPECT_EQ(results.size(), 9u * 2 + 4 + 1);
  EXPECT_EQ(rand_augment(2, 9).size(), 2u);
  // At strength 0 only changes that do not depend on the strength have an effect.
  std::set<std::string> weak;
  for (int64_t sample = 0; sample < 600; ++sample)
    weak.insert(text(run(rand_augment(1, 0), shape, image, sample)));
  EXPECT_LE(weak.size(), 4u);
}

// Every change at 31 strengths: eight have a sign, solarize and posterize have none.
TEST(ColourTest, TrivialAugmentDrawsEveryChangeAndStrength) {
  golden::Array in = file().read("colour/in");
  const ImageShape shape = shape_of(in);
  const Bytes image = bytes_of(in);
  std::set<std::string> results;
  for (int64_t sample = 0; sample < 20000; ++sample)
    results.insert(text(run({trivial_augment()}, shape, image, sample)));
  Bytes out = image;
  for (const double degrees : {135.0, -4.5}) {
    warp(shape, image.data(), out.data(), rotation(shape, degrees));
    EXPECT_TRUE(results.contains(text(out))) << degrees;
  }
  warp(shape, image.data(), out.data(), {1, -0.99, 0, 0, 1, 0});
  EXPECT_TRUE(results.contains(text(out)));
  warp(shape, image.data(), out.data(), {1, 0, 0, 0, 1, 19});  // trunc(32 * 18 / 30)
  EXPECT_TRUE(results.contains(text(out)));
  out = image;
  posterize(shape, out.data(), 2);
  EXPECT_TRUE(results.contains(text(out)));
  EXPECT_GT(results.size(), 14u * 20);
}

TEST(ColourTest, RotateTurnsByAngleWithinItsBounds) {
  golden::Array in = file().read("colour/in");
  const ImageShape shape = shape_of(in);
  const Bytes image = bytes_of(in);
  for (int64_t sample = 0; sample < 20; ++sample) {
    RandomSequence random(7, static_cast<uint64_t>(sample)), again = random;
    Bytes out(image.size()), wanted(image.size());
    rotate(15)->apply(shape, image.data(), out.data(), random);
    const double degrees = 15 * (2 * again.uniform() - 1);
    EXPECT_LE(std::abs(degrees), 15);
    warp(shape, image.data(), wanted.data(), rotation(shape, degrees));
    EXPECT_EQ(out, wanted);
  }
}

TEST(ColourTest, RandomErasingPaintsRectanglesOfItsAreaAndForm) {
  const ImageShape shape{40, 60, 3};
  const Bytes image(7200, 5);
  int painted = 0;
  std::set<int> tops;
  for (int64_t sample = 0; sample < 400; ++sample) {
    for (const EraseMode mode : {EraseMode::kConst, EraseMode::kRand, EraseMode::kPixel}) {
      RandomErasing settings{
          .probability = 0.75, .scale = {0.1, 0.3}, .ratio = {0.5, 2}, .mode = mode, .level = 9};
      const Bytes out = run({random_erasing(settings)}, shape, image, sample);
      int top = 40, bottom = 0, left = 60, right = 0;
      std::set<std::string> colours;
      for (int y = 0; y < 40; ++y)
        for (int x = 0; x < 60; ++x) {
          const auto at = out.begin() + (y * 60 + x) * 3;
          const std::string pixel(at, at + 3);
          if (pixel == "\5\5\5") continue;
          top = std::min(top, y), bottom = std::max(bottom, y + 1);
          left = std::min(left, x), right = std::max(right, x + 1);
          colours.insert(pixel);
        }
      if (colours.empty()) continue;
      const double height = bottom - top, width = right - left;
      EXPECT_NEAR(height * width / 2400, 0.2, 0.11);
      EXPECT_NEAR(std::log2(height / width), 0, 1.15);
      EXPECT_TRUE(mode != EraseMode::kConst || *colours.begin() == "\t\t\t");
      const double share = static_cast<double>(colours.size()) / (height * width);
      EXPECT_EQ(mode == EraseMode::kPixel, share > 0.9);
      EXPECT_EQ(mode == EraseMode::kPixel, colours.size() > 1);
      painted += mode == EraseMode::kConst;
      tops.insert(top);
    }
  }
  EXPECT_NEAR(painted, 300, 40);
  EXPECT_GT(tops.size(), 15u);
  // Nothing fits: the image stays.
  EXPECT_EQ(run({random_erasing({.probability = 1, .scale = {1, 1}})}, shape, image, 1), image);
}

TEST(ColourTest, CutoutPaintsASquareOfItsSize) {
  ImageShape shape{20, 30, 3};
  Bytes image(1800, 5);
  int whole = 0, none = 0;
  for (int64_t sample = 0; sample < 400; ++sample) {
    Bytes out = run({cutout(6, 200)}, shape, image, sample);
    auto painted = std::count(out.begin(), out.end(), 200);
    EXPECT_EQ(painted + std::count(out.begin(), out.end(), 5), 1800);
    EXPECT_GE(painted, 3 * 3 * 3);  // at most about three quarters are outside
    EXPECT_LE(painted, 6 * 6 * 3);
    whole += painted == 6 * 6 * 3;
    none += run({cutout(6, 200, 0.25)}, shape, image, sample) == image;
  }
  EXPECT_GT(whole, 400 * 14 * 24 / 600 - 50);  // all positions of the centre far enough inside
  EXPECT_NEAR(none, 300, 40);
}

TEST(ColourTest, ResizeCropCutsWithinItsBounds) {
  TransformPtr step = resize_crop({.size = 8, .scale = {0.2, 0.5}, .ratio = {0.5, 2}});
  EXPECT_EQ(step->output({40, 60, 3}), (ImageShape{8, 8, 3}));
  std::set<int> tops;
  for (uint64_t i = 0; i < 500; ++i) {
    RandomSequence random(1, i);
    Box box = step->frame({40, 60, 3}, random);
    EXPECT_GE(box.y, 0);
    EXPECT_GE(box.x, 0);
    EXPECT_LE(box.y + box.height, 40);
    EXPECT_LE(box.x + box.width, 60);
    double area = box.height * box.width / 2400.0, ratio = double(box.width) / box.height;
    EXPECT_NEAR(area, 0.35, 0.18);
    EXPECT_GT(ratio, 0.45);
    EXPECT_LT(ratio, 2.2);
    tops.insert(box.y);
  }
  EXPECT_GT(tops.size(), 15u);
  RandomSequence random(1, 1);  // no crop has an allowed ratio: the middle is used
  Box box = resize_crop({.size = 8, .scale = {1, 1}})->frame({10, 1000, 3}, random);
  EXPECT_EQ(box, (Box{0, 493, 10, 13}));
}

TEST(ColourTest, BadSettings) {
  expect_error<ConfigError>([] { resize_crop({.size = -1}); }, {"resize_crop: size -1"});
  expect_error<ConfigError>([] { resize_crop({.scale = {0.5, 0.2}}); }, {"[0.5, 0.2]"});
  expect_error<ConfigError>([] { color_jitter({.hue = 0.7}); }, {"hue 0.7", "0.5"});
  expect_error<ConfigError>([] { cutout(0); }, {"cutout: size must be at least 1, but is 0"});
  expect_error<ConfigError>([] { rand_augment(0, 9); }, {"n 0"});
  expect_error<ConfigError>([] { rotate(181); }, {"degrees 181"});
  expect_error<ConfigError>([] { random_erasing({.scale = {0, 0.2}}); }, {"random_erasing: scale"});
  expect_error<ConfigError>([] { random_erasing({.level = 256}); }, {"level 256"});
  expect_error<ConfigError>([] { flip_vertical(2); }, {"flip: probability 2"});
  expect_error<ConfigError>([] { rand_augment(2, 31); }, {"magnitude 31"});
}

}  // namespace
}  // namespace tessera
