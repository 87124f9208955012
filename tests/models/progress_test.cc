#include "tessera/models/progress.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

ProgressState state() {
  return {.epoch = 2.34, .epochs = 15, .batch = 132, .batches = 391, .steps_left = 5000,
          .loss = 0.5213, .accuracy = 0.812, .images_per_second = 2810.4, .wait_share = 0.012,
          .memory_bytes = size_t{85} << 20};
}

TEST(Progress, SaysEverythingWhereThereIsRoom) {
  EXPECT_EQ(progress_text(state(), 3725, 200),
            "epoch 3/15 [=====>          ] 132/391  2810 images/s  loss 0.5213  accuracy 81.20 %  "
            "1:02:05 left  wait 1 %  85 MiB");
}

TEST(Progress, AnEpochThatEndsIsShownWhole) {
  ProgressState s = state();
  s.epoch = 15;
  s.batch = 0;
  EXPECT_TRUE(progress_text(s, 0, 200).starts_with("epoch 15/15 [================] 391/391  "));
  s.epoch = 0;
  EXPECT_TRUE(progress_text(s, 0, 200).starts_with("epoch 1/15 [>               ] 0/391  "));
}

TEST(Progress, LeavesOutWhatHasNoRoom) {
  for (int columns = 0; columns < 150; ++columns) {
    const std::string text = progress_text(state(), 60, columns);
    EXPECT_LE(text.size(), static_cast<size_t>(columns));
    EXPECT_FALSE(text.ends_with(' '));
  }
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(5), "0:05");
  EXPECT_EQ(duration_text(245.9), "4:05");
  EXPECT_EQ(duration_text(2 * 3600 + 4 * 60 + 5), "2:04:05");
  EXPECT_EQ(duration_text(3 * 86400 + 7200), "3 d 2 h");
  EXPECT_EQ(duration_text(0.0 / 0.0), "?");
}

TEST(Progress, IsSilentWhereNobodyWatches) {
  std::FILE* file = std::tmpfile();
  {
    Progress progress(file);
    EXPECT_FALSE(progress.active());
    progress.update(state());
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

TEST(Progress, DrawsInPlaceAndCleansUp) {
  std::FILE* file = std::tmpfile();
  {
    Progress progress(file, true);
    progress.update(state());
    progress.update(state());  // too soon to be drawn
  }
  std::rewind(file);
  char text[1000] = {};
  const size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  const std::string drawn(text, size);
  EXPECT_EQ(drawn.find("epoch 3/15"), drawn.rfind("epoch 3/15"));
  EXPECT_TRUE(drawn.ends_with("\r\x1b[K"));
}

}  // namespace
}  // namespace tessera
