#include "tessera/runtime/data/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include "tessera/runtime/data/sets/synthetic.h"
#include "tessera/runtime/data/wait_monitor.h"
#include "tessera/runtime/thread_pool.h"
#include "tessera/tests/runtime/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;

std::shared_ptr<const Dataset> pictures(int64_t count = 60) {
  return synthetic(3, SyntheticSplit::kTrain, count, 16);
}

Bytes epoch(Loader& loader) {
  Bytes all;
  for (int64_t i = 0; i < loader.batches(); ++i) {
    const Batch& batch = loader.next();
    all.insert(all.end(), batch.images, batch.images + batch.count * loader.shape().bytes());
  }
  return all;
}

TEST(PipelineTest, TheChainIsTheLoaderOfTheSameOptions) {
  auto chain = from(pictures()).shuffle(0, 7).map(crop(2)).map(flip_horizontal()).batch(8);
  LoaderOptions options;
  options.batch = 8;
  options.shuffle = true;
  options.seed = 7;
  options.augment = {crop(2), flip_horizontal()};
  options.workers = 0;
  Loader plain(pictures(), options);
  Bytes expected = epoch(plain);
  for (int parallel : {0, 1, 3}) {
    auto loader = from(pictures())
                      .shuffle(0, 7)
                      .map(crop(2), {.parallel = parallel})
                      .map(flip_horizontal())
                      .batch(8)
                      .prefetch(2)
                      .start();
    EXPECT_EQ(loader->options().workers, parallel);
    EXPECT_EQ(loader->options().read_ahead, 2);
    EXPECT_TRUE(epoch(*loader) == expected);
  }
  EXPECT_TRUE(epoch(*chain.prefetch().start()) == expected);
}

TEST(PipelineTest, AutoIsBoundedAndSaysWhatItChose) {
  auto small = from(pictures()).batch(8);
  LoaderOptions options = small.options();
  EXPECT_EQ(options.workers, std::min(available_cores(), 16));
  EXPECT_EQ(options.read_ahead, std::clamp(2 * options.workers, 2, 16));
  EXPECT_NE(small.describe().find("(auto: "), std::string::npos);
  // A batch of 96 MiB: two of them are all that 256 MiB hold.
  auto large = from(synthetic(1, SyntheticSplit::kTrain, 1000, 512)).batch(128);
  EXPECT_LE(large.options().read_ahead, 2);
  EXPECT_GE(large.options().read_ahead, 1);
  EXPECT_EQ(from(pictures())
                .shuffle(10, 3)
                .map(crop(2), {.parallel = 2})
                .batch(8)
                .prefetch(3)
                .shard(0, 2)
                .describe(),
            "synthetic train | shuffle 10, seed 3 | crop padding 2 | batch 8 | part 0 of 2 | "
            "2 workers | prefetch 3");
}

TEST(PipelineTest, OwnFunctionsAndParts) {
  auto negative = [](const ImageShape& shape, const uint8_t* in, uint8_t* out, RandomSequence&) {
    for (int64_t i = 0; i < shape.bytes(); ++i) out[i] = static_cast<uint8_t>(255 - in[i]);
  };
  auto loader = from(pictures()).map("negative", negative).batch(60).start();
  Bytes image(16 * 16 * 3);
  pictures()->read(59, image.data());
  EXPECT_EQ(loader->next().images[59 * 768], 255 - image[0]);
  auto half = from(pictures()).batch(10).shard(1, 2).start();
  EXPECT_EQ(half->samples(), 30);
  EXPECT_EQ(half->next().samples[0], 10);
  expect_error<ConfigError>([] { from(nullptr); }, {"null"});
  expect_error<ConfigError>([] { from(pictures()).map("none", nullptr); }, {"'none'"});
  expect_error<ConfigError>([] { from(pictures()).batch(0).start(); }, {"batch is 0"});
}

TEST(PipelineTest, AWindowedShuffleStaysNear) {
  auto order = [&](int64_t window) {
    auto loader = from(pictures(500)).shuffle(window, 5).batch(500).start();
    const Batch& batch = loader->next();
    return std::vector<int64_t>(batch.samples, batch.samples + batch.count);
  };
  std::vector<int64_t> near = order(20), sorted = near;
  std::sort(sorted.begin(), sorted.end());
  int64_t moved = 0;
  for (int64_t i = 0; i < 500; ++i) {
    auto at = static_cast<size_t>(i);
    ASSERT_EQ(sorted[at], i);
    EXPECT_LT(near[at], i + 20);  // not drawn before it is in the window
    moved += near[at] != i;
  }
  EXPECT_GT(moved, 400);
  EXPECT_EQ(order(1).at(77), 77);
  EXPECT_EQ(order(500), order(0));
}

TEST(PipelineTest, TheReportIsWhatItHolds) {
  for (int workers : {0, 3}) {
    size_t before = cpu_memory().statistics().live_bytes;
    auto loader = from(pictures())
                      .shuffle()
                      .map(crop(2), {.parallel = workers})
                      .mix({.mixup = 0.2})
                      .batch(16)
                      .prefetch(4)
                      .start();
    size_t held = cpu_memory().statistics().live_bytes - before, said = 0;
    for (const HostBuffer& buffer : loader->host_buffers()) said += buffer.bytes;
    EXPECT_EQ(said, held + 60 * sizeof(int64_t));  // and the order
  }
}

// Takes its time over one stage.
class Slow : public Dataset {
 public:
  explicit Slow(int milliseconds)
      : Dataset({"slow", {2, 2, 3}, 64, 2, {}, {}}), milliseconds_(milliseconds) {}

 private:
  void do_read(int64_t, uint8_t* image) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    std::fill(image, image + 12, uint8_t{1});
  }
  int64_t do_label(int64_t index) const override { return index % 2; }
  int milliseconds_;
};

TEST(WaitMonitorTest, NamesTheSlowestStageOnce) {
  auto sleep = [](const ImageShape& shape, const uint8_t* in, uint8_t* out, RandomSequence&) {
    std::copy(in, in + shape.bytes(), out);
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  };
  auto slow_read = from(std::make_shared<Slow>(4)).batch(4).start();
  auto slow_map = from(std::make_shared<Slow>(0)).map("sleep", sleep).batch(4).start();
  for (auto [loader, stage] :
       {std::pair{slow_read.get(), "reading"}, std::pair{slow_map.get(), "augmentation"}}) {
    WaitMonitor monitor(*loader, {.window = 8, .share = 0.1});
    int warnings = 0;
    for (int i = 0; i < 24; ++i) {
      loader->next();
      if (monitor.step()) {
        EXPECT_EQ(i, 7);
        ++warnings;
      }
    }
    EXPECT_EQ(warnings, 1);
    EXPECT_GT(monitor.share(), 0.5);
    EXPECT_STREQ(monitor.slowest().name, stage);
    std::string text = monitor.warning();
    EXPECT_NE(text.find("of the last 8 steps"), std::string::npos) << text;
    EXPECT_NE(text.find(std::string("slowest stage is ") + stage), std::string::npos) << text;
  }
}

TEST(WaitMonitorTest, SaysNothingWhereNothingIsWaitedFor) {
  auto loader = from(pictures()).batch(4).start();
  WaitMonitor monitor(*loader, {.window = 5, .share = 0.9});
  for (int i = 0; i < 20; ++i) {
    loader->next();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_FALSE(monitor.step());
  }
  EXPECT_LT(monitor.share(), 0.9);
  expect_error<ConfigError>([&] { WaitMonitor(*loader, {.window = 0}); }, {"window of 0"});
}

}  // namespace
}  // namespace tessera
