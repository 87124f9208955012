#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tessera/models/data/loader.h"
#include "tessera/models/data/sets/synthetic.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;

constexpr ImageShape kShape{8, 10, 3};

struct Mixed {
  std::vector<Bytes> images;
  std::vector<int32_t> partners;
  std::vector<float> shares;
};

// Mixes `count` images. Image i has the value 20 i + 10 everywhere and label i.
Mixed mixed(const Mix& mix, int64_t count, int64_t epoch = 0) {
  auto bytes = static_cast<size_t>(kShape.bytes());
  Bytes images;
  std::vector<int32_t> labels;
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < count; ++i) {
    images.insert(images.end(), bytes, static_cast<uint8_t>(20 * i + 10));
    labels.push_back(static_cast<int32_t>(i));
    samples.push_back(1000 + i);
  }
  Mixed out{{}, std::vector<int32_t>(labels.size()), std::vector<float>(labels.size())};
  const Bytes first(images.begin(), images.begin() + static_cast<int64_t>(bytes));
  mix_batch(mix, {7, epoch}, kShape, count, samples.data(), labels.data(), images.data(),
            out.partners.data(), out.shares.data(), first.data(), labels[0]);
  for (size_t i = 0; i < labels.size(); ++i)
    out.images.push_back({images.begin() + static_cast<int64_t>(i * bytes),
                          images.begin() + static_cast<int64_t>((i + 1) * bytes)});
  return out;
}

TEST(MixTest, MixupIsTheWeightedMean) {
  Mixed out = mixed({.mixup = 1}, 12);
  for (size_t i = 0; i < 12; ++i) {
    size_t next = (i + 1) % 12;
    EXPECT_EQ(out.partners[i], static_cast<int32_t>(next));
    double expected = out.shares[i] * (20.0 * static_cast<double>(i) + 10) +
                      (1 - out.shares[i]) * (20.0 * static_cast<double>(next) + 10);
    EXPECT_EQ(std::count(out.images[i].begin(), out.images[i].end(), out.images[i][0]), 240);
    EXPECT_NEAR(out.images[i][0], expected, 0.51);
  }
}

TEST(MixTest, CutmixPastesARectangleAndCountsIt) {
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    Mixed out = mixed({.cutmix = 1}, 3, epoch);
    for (size_t i = 0; i < 3; ++i) {
      auto own = static_cast<uint8_t>(20 * i + 10),
           other = static_cast<uint8_t>(20 * ((i + 1) % 3) + 10);
      auto pasted = std::count(out.images[i].begin(), out.images[i].end(), other);
      EXPECT_EQ(pasted + std::count(out.images[i].begin(), out.images[i].end(), own), 240);
      EXPECT_NEAR(out.shares[i], 1 - static_cast<double>(pasted) / 240, 1e-6);
      int top = 8, bottom = -1, left = 10, right = -1;  // bounds of the pasted pixels: a rectangle
      for (int p = 0; p < 80; ++p) {
        if (out.images[i][static_cast<size_t>(3 * p)] != other) continue;
        top = std::min(top, p / 10), bottom = std::max(bottom, p / 10);
        left = std::min(left, p % 10), right = std::max(right, p % 10);
      }
      int sides = pasted > 0 ? 3 * (bottom - top + 1) * (right - left + 1) : 0;
      EXPECT_EQ(pasted, sides);
    }
  }
}

// Beta(alpha, alpha) has mean 1/2 and variance 1 / (4 (2 alpha + 1)).
TEST(MixTest, SharesFollowTheirDistribution) {
  for (double alpha : {0.05, 0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0, count = 0;
    for (int64_t epoch = 0; epoch < 400; ++epoch) {
      for (float share : mixed({.mixup = alpha}, 12, epoch).shares) {
        ASSERT_TRUE(share >= 0 && share <= 1) << share;
        sum += share, squares += share * share, ++count;
      }
    }
    double mean = sum / count, variance = squares / count - mean * mean;
    EXPECT_NEAR(mean, 0.5, 0.03) << alpha;
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.012) << alpha;
  }
}

TEST(MixTest, BothKindsTakeTurnsAndSomeImagesStay) {
  int flat = 0, untouched = 0, total = 0;
  for (int64_t epoch = 0; epoch < 100; ++epoch) {
    Mixed out = mixed(
        {.mixup = 1, .cutmix = 1, .mixup_probability = 0.5, .cutmix_probability = 0.25}, 10, epoch);
    for (size_t i = 0; i < 10; ++i, ++total) {
      auto own = static_cast<uint8_t>(20 * i + 10);
      bool even = std::count(out.images[i].begin(), out.images[i].end(), out.images[i][0]) == 240;
      untouched += out.shares[i] == 1;
      flat += even && out.images[i][0] != own;
    }
  }
  EXPECT_NEAR(untouched, 5 * total / 8, 80);
  EXPECT_NEAR(flat, total / 4, 80);
}

TEST(MixTest, SameBitsForAnyNumberOfWorkers) {
  auto data = synthetic(3, SyntheticSplit::kTrain, 50, 16);
  auto batches = [&](int workers) {
    LoaderOptions options;
    options.batch = 8;
    options.shuffle = true;
    options.workers = workers;
    options.augment = {resize_crop({.size = 12}), color_jitter({0.4, 0.4, 0.4, 0.1}), cutout(4)};
    for (const TransformPtr& step : rand_augment(2, 9)) options.augment.push_back(step);
    options.mix = {.mixup = 0.2, .cutmix = 1};
    Loader loader(data, options);
    EXPECT_EQ(loader.shape(), (ImageShape{12, 12, 3}));
    Bytes all;
    for (int64_t i = 0; i < 3 * loader.batches(); ++i) {
      const Batch& batch = loader.next();
      all.insert(all.end(), batch.images, batch.images + batch.count * loader.shape().bytes());
      auto* shares = reinterpret_cast<const uint8_t*>(batch.shares);
      all.insert(all.end(), shares, shares + batch.count * 4);
      auto* partners = reinterpret_cast<const uint8_t*>(batch.partners);
      all.insert(all.end(), partners, partners + batch.count * 4);
    }
    return all;
  };
  Bytes expected = batches(0);
  for (int workers : {1, 2, 4}) EXPECT_TRUE(batches(workers) == expected) << workers;
}

TEST(MixTest, BadSettings) {
  expect_error<ConfigError>([] { check_mix({.mixup = -1}); }, {"mixup: alpha -1"});
  expect_error<ConfigError>([] { check_mix({.mixup_probability = 2}); }, {"mixup: probability 2"});
  expect_error<ConfigError>([] { check_mix({.cutmix_probability = -1}); },
                            {"cutmix: probability -1"});
  EXPECT_EQ((Mix{.mixup = 0.2, .cutmix = 1}).describe(), "mixup alpha 0.2 or cutmix alpha 1");
  EXPECT_EQ((Mix{.cutmix = 1, .cutmix_probability = 0.5}).describe(),
            "cutmix alpha 1, probability 0.5");
}

}  // namespace
}  // namespace tessera
