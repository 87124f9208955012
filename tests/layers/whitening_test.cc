// Whitening filters make their inputs independent, of variance 1; filters that start as the
// identity pass their channels on; a batch norm without factors has none to train.
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/scope.h"
#include "tessera/layers/modules.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

// Returns images whose neighbouring pixels and channels are similar.
Tensor smooth_images(const Shape& shape) {
  const Tensor noise = random_normal(shape, 3);
  std::vector<float> values = noise.to_vector<float>();
  for (size_t i = 4; i < values.size(); ++i)
    values[i] += 0.5f * values[i - 1] + 0.3f * values[i - 4];
  return from_vector<float>(shape, values);
}

TEST(Whitening, MakesPatchesIndependentWithVarianceOne) {
  const Shape shape{6, 9, 11, 3};
  const Tensor x = smooth_images(shape);
  const std::vector<float> values = x.to_vector<float>();
  const std::vector<float> filters = whitening_filters(values, shape, 2, 0);
  ASSERT_EQ(filters.size(), 24u * 12u);
  const Tensor y = conv2d(x, from_vector<float>({24, 2, 2, 3}, filters), {});
  const std::vector<float> made = y.to_vector<float>();
  const size_t pixels = made.size() / 24;
  for (size_t i = 0; i < 24; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (size_t p = 0; p < pixels; ++p) product += double{made[p * 24 + i]} * made[p * 24 + j];
      const double wanted = i == j ? 1 : i == j + 12 ? -1 : 0;
      EXPECT_NEAR(product / static_cast<double>(pixels), wanted, 1e-4) << i << " " << j;
    }
}

TEST(Whitening, OfImagesThatVaryInNoDirectionIsFinite) {
  const Shape shape{2, 4, 4, 1};
  const std::vector<float> gray(32, 0.5f);
  for (const float value : whitening_filters(gray, shape, 2, Whitening::kEps))
    EXPECT_TRUE(std::isfinite(value));
}

TEST(Whitening, RefusesImagesWithoutAPatch) {
  const std::vector<float> values(12);
  EXPECT_THROW(whitening_filters(values, {1, 2, 2, 3}, 3, 0), ShapeError);
  EXPECT_THROW(whitening_filters(values, {1, 2, 2, 2}, 2, 0), ShapeError);
  EXPECT_THROW(whitening_filters({}, {0, 2, 2, 3}, 2, 0), ShapeError);
}

TEST(Whitening, IsAConvolutionWithNothingToTrain) {
  Store store(1);
  Whitening layer(store, "first", {.in = 3, .kernel = 2});
  EXPECT_TRUE(store.parameters().empty());
  Tensor filters = store.find("first.whitening");
  EXPECT_EQ(filters.shape(), Shape({24, 2, 2, 3}));
  const Tensor x = random_normal({2, 5, 6, 3}, 1), w = random_normal({24, 2, 2, 3}, 2);
  filters.assign(std::span<const float>(w.to_vector<float>()));
  EXPECT_EQ(layer(x).to_vector<float>(), conv2d(x, w, {}).to_vector<float>());
}

TEST(Conv2dModule, FiltersThatStartAsTheIdentityHandOnTheirChannels) {
  for (const auto& [in, out] : {std::pair{3, 5}, std::pair{5, 3}}) {
    Store store(4);
    Conv2d conv(store, "c",
                {.in = in, .out = out, .kernel = 3, .padding = 1, .bias = false, .identity = true});
    const Tensor x = random_normal({2, 4, 5, in}, 1);
    const std::vector<float> values = x.to_vector<float>(), y = conv(x).to_vector<float>();
    for (size_t p = 0; p < 40; ++p)
      for (int c = 0; c < 3; ++c)
        EXPECT_NEAR(y[p * out + c], values[p * in + c], 1e-6f) << in << " " << p << " " << c;
    Store plain(4);
    Conv2d other(plain, "c", {.in = in, .out = out, .kernel = 3, .padding = 1, .bias = false});
    const auto all = store.find("c.weight").to_vector<float>();
    const auto drawn = plain.find("c.weight").to_vector<float>();
    for (size_t i = 3 * 9 * in; i < all.size(); ++i) EXPECT_EQ(all[i], drawn[i]);
  }
}

TEST(Conv2dModule, TheIdentityNeedsAMiddleAndOneGroup) {
  Store store;
  EXPECT_THROW(Conv2d(store, "a", {.in = 4, .out = 4, .kernel = 2, .identity = true}), ConfigError);
  EXPECT_THROW(Conv2d(store, "b", {.in = 4, .out = 4, .groups = 2, .identity = true}), ConfigError);
}

TEST(BatchNorm2dModule, WithoutFactorsTrainsTheOffsetAlone) {
  Store store;
  BatchNorm2d norm(store, "n", {.channels = 4, .scale = false});
  ASSERT_EQ(store.parameters().size(), 1u);
  EXPECT_TRUE(store.find("n.beta").defined());
  EXPECT_EQ(store.find("n.gamma").to_vector<float>(), std::vector<float>(4, 1.0f));
  Store full;
  BatchNorm2d other(full, "n", {.channels = 4});
  const Tensor x = random_normal({3, 2, 2, 4}, 1);
  TrainingScope training;
  EXPECT_EQ(norm(x).to_vector<float>(), other(x).to_vector<float>());
}

}  // namespace
}  // namespace tessera
