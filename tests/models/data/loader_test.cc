#include "tessera/models/data/loader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "tessera/tests/counted_new.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;

constexpr ImageShape kShape{6, 5, 3};

// Image i is filled with hashes of i and has label i % 7. Reading image `bad` fails.
class Hashed : public Dataset {
 public:
  explicit Hashed(int64_t count, int64_t bad = -1)
      : Dataset({.name = "hashed",
                 .shape = kShape,
                 .count = count,
                 .classes = 7,
                 .class_names = {},
                 .normalization = {}}),
        bad_(bad) {}

  mutable std::atomic<int64_t> bad_;

 private:
  void do_read(int64_t index, uint8_t* image) const override {
    if (index == bad_) throw DataError("hashed: image " + std::to_string(index) + " is damaged");
    for (int64_t i = 0; i < shape().bytes(); ++i) {
      image[i] = static_cast<uint8_t>(index * 37 + i * (index % 5 + 1));
    }
  }
  int64_t do_label(int64_t index) const override { return index % 7; }
};

LoaderOptions training(int workers, int prefetch = 3) {
  LoaderOptions options;
  options.batch = 8;
  options.shuffle = true;
  options.seed = 5;
  options.workers = workers;
  options.prefetch = prefetch;
  options.augment = {crop(2), flip_horizontal()};
  return options;
}

// A copy of a batch.
struct Copy {
  Bytes images;
  std::vector<int32_t> labels;
  std::vector<int64_t> samples;
  int64_t epoch, index, first;
  bool last;
  bool operator==(const Copy&) const = default;
};

Copy copy(const Batch& batch, const Loader& loader) {
  return {{batch.images, batch.images + batch.count * loader.shape().bytes()},
          {batch.labels, batch.labels + batch.count},
          {batch.samples, batch.samples + batch.count},
          batch.epoch,
          batch.index,
          batch.first,
          batch.last};
}

std::vector<Copy> take(Loader& loader, int64_t batches) {
  std::vector<Copy> all;
  for (int64_t i = 0; i < batches; ++i) all.push_back(copy(loader.next(), loader));
  return all;
}

TEST(LoaderTest, InOrderWithoutShuffle) {
  auto data = std::make_shared<Hashed>(20);
  LoaderOptions options;
  options.batch = 8;
  Loader loader(data, options);
  EXPECT_EQ(loader.batches(), 3);
  EXPECT_EQ(loader.samples(), 20);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    int64_t n = 0;
    for (int64_t i = 0; i < 3; ++i) {
      const Batch& batch = loader.next();
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(batch.index, i);
      EXPECT_EQ(batch.first, 8 * i);
      EXPECT_EQ(batch.count, i == 2 ? 4 : 8);
      EXPECT_EQ(batch.last, i == 2);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.images) % 64, 0u);
      for (int64_t k = 0; k < batch.count; ++k, ++n) {
        Bytes image(static_cast<size_t>(kShape.bytes()));
        data->read(n, image.data());
        EXPECT_TRUE(std::equal(image.begin(), image.end(), batch.images + k * kShape.bytes()));
        EXPECT_EQ(batch.labels[k], n % 7);
        EXPECT_EQ(batch.samples[k], n);
      }
    }
  }
}

TEST(LoaderTest, ShuffleIsAPermutationNewEachEpoch) {
  Loader loader(std::make_shared<Hashed>(50), training(2));
  std::vector<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> order;
    for (const Copy& batch : take(loader, loader.batches())) {
      order.insert(order.end(), batch.samples.begin(), batch.samples.end());
    }
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < 50; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

// 90 images of class 0 and 10 of class 3; none of the other classes.
class Uneven final : public Hashed {
 public:
  Uneven() : Hashed(100) {}

 private:
  int64_t do_label(int64_t index) const override { return index < 90 ? 0 : 3; }
};

TEST(LoaderTest, BalancedClassesAreAsFrequentAndTheirOrderIsOfTheEpoch) {
  LoaderOptions options = training(2);
  options.balanced = true;
  const auto drawn = [&](int64_t epoch, int workers) {
    options.workers = workers;
    Loader loader(std::make_shared<Uneven>(), options);
    loader.start_epoch(epoch);
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < loader.batches(); ++i) {
      const Batch& batch = loader.next();
      for (int64_t k = 0; k < batch.count; ++k) {
        EXPECT_EQ(batch.labels[k], batch.samples[k] < 90 ? 0 : 3);
        samples.push_back(batch.samples[k]);
      }
    }
    return samples;
  };
  const std::vector<int64_t> first = drawn(0, 2);
  ASSERT_EQ(first.size(), 100u);
  const auto small = std::count_if(first.begin(), first.end(), [](int64_t i) { return i >= 90; });
  EXPECT_GT(small, 35);
  EXPECT_LT(small, 65);
  EXPECT_GT(std::set(first.begin(), first.end()).size(), 40u);
  EXPECT_EQ(drawn(0, 0), first);
  EXPECT_NE(drawn(1, 2), first);
}

TEST(LoaderTest, SameBitsForAnyNumberOfWorkers) {
  auto data = std::make_shared<Hashed>(45);
  Loader plain(data, training(0));
  std::vector<Copy> expected = take(plain, 4 * plain.batches());
  EXPECT_EQ(expected.back().epoch, 3);
  for (int workers : {1, 2, 3, 4}) {
    for (int prefetch : {1, 2, 9}) {
      Loader loader(data, training(workers, prefetch));
      EXPECT_EQ(take(loader, 4 * loader.batches()), expected) << workers << " " << prefetch;
    }
  }
}

TEST(LoaderTest, StartsAnywhereAsIfItHadComeThere) {
  auto data = std::make_shared<Hashed>(45);
  Loader straight(data, training(2));
  std::vector<Copy> expected = take(straight, 30);  // 6 per epoch
  for (int workers : {0, 2}) {
    Loader loader(data, training(workers));
    loader.start_epoch(3, 2);
    EXPECT_EQ(copy(loader.next(), loader), expected[20]);
    EXPECT_EQ(copy(loader.next(), loader), expected[21]);
    loader.start_epoch(0);
    EXPECT_EQ(copy(loader.next(), loader), expected[0]);
    loader.start_epoch(0, 1);  // its current position
    EXPECT_EQ(copy(loader.next(), loader), expected[1]);
    loader.start_epoch(4, 5);
    EXPECT_EQ(copy(loader.next(), loader), expected[29]);
    EXPECT_EQ(loader.next().epoch, 5);
    expect_error<Error>([&] { loader.start_epoch(0, 6); }, {"epoch 0, batch 6", "6 batches"});
    expect_error<Error>([&] { loader.start_epoch(-1); }, {"epoch -1"});
  }
}

TEST(LoaderTest, DropLast) {
  LoaderOptions options = training(1);
  options.drop_last = true;
  Loader loader(std::make_shared<Hashed>(20), options);
  EXPECT_EQ(loader.batches(), 2);
  EXPECT_EQ(loader.samples(), 16);
  std::vector<Copy> all = take(loader, 3);
  EXPECT_EQ(all[1].samples.size(), 8u);
  EXPECT_TRUE(all[1].last);
  EXPECT_EQ(all[2].epoch, 1);
}

TEST(LoaderTest, ProcessesShareEachGlobalBatch) {
  auto data = std::make_shared<Hashed>(53);
  LoaderOptions whole = training(0);
  whole.batch = 12;
  Loader one(data, whole);
  std::vector<Copy> expected = take(one, one.batches());
  std::vector<std::vector<int64_t>> joined(expected.size());
  for (int rank = 0; rank < 3; ++rank) {
    LoaderOptions part = whole;
    part.rank = rank;
    part.world = 3;
    part.parts = 4;  // 3 images each; in the last batch one part has 2
    Loader loader(data, part);
    ASSERT_EQ(loader.batches(), one.batches());
    EXPECT_EQ(loader.samples(), 53);
    for (size_t i = 0; i < expected.size(); ++i) {
      Copy batch = copy(loader.next(), loader);
      EXPECT_EQ(batch.first, 12 * static_cast<int64_t>(i));
      const size_t images = (i == 4 ? std::array{1, 1, 3} : std::array{3, 3, 6})[rank];
      EXPECT_EQ(batch.samples.size(), images);
      joined[i].insert(joined[i].end(), batch.samples.begin(), batch.samples.end());
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(joined[i], expected[i].samples);
}

TEST(LoaderTest, AWorkersErrorIsThrownInNext) {
  for (int workers : {0, 1, 3}) {
    auto data = std::make_shared<Hashed>(40, 17);
    LoaderOptions options;
    options.batch = 8;
    options.workers = workers;
    Loader loader(data, options);
    EXPECT_EQ(loader.next().index, 0);
    EXPECT_EQ(loader.next().index, 1);
    for (int i = 0; i < 2; ++i) {
      expect_error<DataError>([&] { loader.next(); }, {"image 17 is damaged"});
    }
    data->bad_ = -1;
    loader.start_epoch(0, 2);
    EXPECT_EQ(loader.next().index, 2);
    EXPECT_EQ(loader.next().index, 3);
  }
}

TEST(LoaderTest, ShutsDownAtAnyTime) {
  auto data = std::make_shared<Hashed>(64);
  for (int taken = 0; taken < 12; ++taken) {
    Loader loader(data, training(3, taken % 4 + 1));
    for (int i = 0; i < taken; ++i) loader.next();
  }
}

TEST(LoaderTest, AllocatesNothingOnceMade) {
  for (int workers : {0, 2}) {
    Loader loader(std::make_shared<Hashed>(100), training(workers));
    loader.next();
    int64_t before = counted_news;
    for (int64_t i = 0; i < 5 * loader.batches(); ++i) loader.next();
    loader.start_epoch(2, 3);
    for (int64_t i = 0; i < 20; ++i) loader.next();
    EXPECT_EQ(counted_news - before, 0) << workers << " workers";
  }
}

TEST(LoaderTest, SaysWhatItHolds) {
  size_t before = cpu_memory().statistics().live_bytes;
  Loader loader(std::make_shared<Hashed>(100), training(2, 3));
  auto buffers = loader.host_buffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].bytes, cpu_memory().statistics().live_bytes - before);
  // 4 slots of 8 images of 90 bytes, 8 labels and 8 indices, and two scratch images per worker
  EXPECT_EQ(buffers[0].bytes, 4u * (768 + 64 + 64) + 2u * 192);
  EXPECT_EQ(buffers[1].bytes, 800u);
  EXPECT_EQ(loader.bytes(), static_cast<int64_t>(buffers[0].bytes + buffers[1].bytes));
  loader.next();
  EXPECT_GT(loader.times().read, 0);
  EXPECT_GT(loader.times().augment, 0);
  EXPECT_GE(loader.wait_seconds(), 0);
}

// A batch stays unchanged for `held` calls of next(), while the workers load further batches.
TEST(LoaderTest, HeldBatchesStayAsTheyAre) {
  const auto data = std::make_shared<Hashed>(50);
  for (const int workers : {0, 1, 3}) {
    LoaderOptions options = training(workers, 1);
    Loader one(data, options);
    options.held = 3;
    Loader loader(data, options);
    EXPECT_EQ(loader.bytes(), Loader::planned_bytes(kShape, 50, options));
    EXPECT_GT(loader.bytes(), one.bytes());
    std::vector<Batch> held;
    std::vector<Copy> copies;
    for (int i = 0; i < 3 * 7; ++i) {
      held.push_back(loader.next());
      copies.push_back(copy(held.back(), loader));
      EXPECT_EQ(copies.back(), copy(one.next(), one)) << workers << " workers, batch " << i;
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // time for the workers
      for (size_t k = held.size() - std::min<size_t>(3, held.size()); k < held.size(); ++k)
        EXPECT_EQ(copy(held[k], loader), copies[k]) << workers << " workers, batch " << k;
    }
  }
}

TEST(LoaderTest, ABatchLargerThanTheDataTakesOnlyItsMemory) {
  LoaderOptions options;
  options.batch = 1 << 20;
  Loader loader(std::make_shared<Hashed>(10), options);
  EXPECT_EQ(loader.next().count, 10);
  EXPECT_LT(loader.bytes(), 10000);
}

TEST(LoaderTest, BadOptions) {
  auto data = std::make_shared<Hashed>(10);
  auto bad = [&](auto change, const std::vector<std::string>& parts) {
    LoaderOptions options;
    change(options);
    expect_error<ConfigError>([&] { Loader loader(data, options); }, parts);
  };
  bad([](LoaderOptions& o) { o.batch = 0; }, {"loader: batch is 0"});
  bad([](LoaderOptions& o) { o.workers = -1; }, {"loader: workers is -1, but must be in [0, 256]"});
  bad([](LoaderOptions& o) { o.prefetch = 0; }, {"prefetch is 0"});
  bad([](LoaderOptions& o) { o.rank = 1; }, {"rank is 1"});
  bad([](LoaderOptions& o) { o.world = o.parts = 11; },
      {"the last batch of an epoch has 10 image(s), too few for 11 processes"});
  bad([](LoaderOptions& o) { o.drop_last = true; }, {"batches of 128 if an incomplete batch"});
  bad([](LoaderOptions& o) { o.augment = {crop(9, CropBorder::kReflect)}; }, {"crop"});
  expect_error<ConfigError>([] { Loader loader(nullptr, {}); }, {"null"});
}

}  // namespace
}  // namespace tessera
