#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/models/training/training_console.h"

namespace tessera {
namespace {

ProgressState state() {
  return {.epoch = 2.34,
          .epochs = 15,
          .batch = 132,
          .batches = 391,
          .steps_left = 5000,
          .loss = 0.5213,
          .accuracy = 0.812,
          .images_per_second = 2810.4,
          .wait_share = 0.012,
          .memory_bytes = size_t{85} << 20};
}

TEST(Progress, SaysEverythingWhereThereIsRoom) {
  EXPECT_EQ(progress_text(state(), 3725, 200),
            "epoch  3/15 [=====>          ] 132/391  2810 img/s   loss 0.5213  acc 81.2 %   "
            "eta 1:02:05    wait 1 %    85 MiB");
}

TEST(Progress, AnEpochThatEndsIsShownWhole) {
  ProgressState s = state();
  s.epoch = 15;
  s.batch = 0;
  EXPECT_TRUE(progress_text(s, 0, 200).starts_with("epoch 15/15 [================] 391/391  "));
  s.epoch = 0;
  EXPECT_TRUE(progress_text(s, 0, 200).starts_with("epoch  1/15 [>               ]   0/391  "));
}

TEST(Progress, WordsAreShortenedAndBatchesLeftOutBeforeTheBarIs) {
  const std::string rest = " 2810/s  loss 0.521 acc 81.2% eta 1:02  wait 1%  85MiB";
  EXPECT_EQ(progress_text(state(), 62, 89), "epoch  3/15 [====>       ] 132/391" + rest);
  EXPECT_EQ(progress_text(state(), 62, 84), "epoch  3/15 [=====>         ]" + rest);
  EXPECT_EQ(progress_text(state(), 62, 79), "epoch  3/15 [===>      ]" + rest);
}

// Returns texts of many states, all with `columns` columns.
std::vector<std::string> texts_of_many_states(int columns, double epochs) {
  std::vector<std::string> texts;
  for (double rate : {0.0, 0.31, 9.96, 2810.0, 9999.7, 99'949.0, 999'499.0, 123e6})
    for (double loss : {0.0, 0.5213, 9.9999, 999.99, 1.23e30, -1.23e-30, double(NAN)})
      for (double accuracy : {0.0, 0.812, 0.9999, 1.0})
        for (double left : {0.0, 3599.9, 36e3 - 1, 86399.0, 86400 * 99.9, 1e12, double(NAN)})
          for (double wait : {0.0, 0.034, 1.0})
            for (size_t memory : {size_t{1} << 10, size_t{1023} << 20, size_t{900} << 30})
              for (double epoch : {0.0, 2.34}) {
                ProgressState s = state();
                s.epoch = epoch;
                s.batch = static_cast<int64_t>(epoch);
                s.epochs = epochs;
                s.images_per_second = rate;
                s.loss = loss;
                s.accuracy = accuracy;
                s.wait_share = wait;
                s.memory_bytes = memory;
                texts.push_back(progress_text(s, left, columns));
              }
  return texts;
}

// A terminal of 80 columns has space for 79, as the cursor is in the last column.
TEST(Progress, EightyColumnsHaveRoomForAllThatIsAskedForAndABar) {
  for (int columns : {79, 119})
    for (double epochs : {1.0, 100.0})
      for (const std::string& text : texts_of_many_states(columns, epochs)) {
        ASSERT_LE(text.size(), static_cast<size_t>(columns)) << text;
        ASSERT_TRUE(text.starts_with("epoch ")) << text;
        ASSERT_GE(text.find(']') - text.find('['), 9u) << text;
        for (const char* part : {"/s ", "loss ", "acc ", "eta ", "wait ", "B"})
          ASSERT_NE(text.find(part), text.npos) << part << " in " << text;
      }
}

// No field appears, disappears or moves when numbers grow by a digit.
TEST(Progress, NothingMovesAsNumbersGrow) {
  for (int columns : {29, 59, 79, 89, 119}) {
    std::set<std::vector<size_t>> places;
    for (const std::string& text : texts_of_many_states(columns, 100)) {
      std::vector<size_t> at;
      for (const char* part : {"[", "]", "loss", "acc", "eta", "wait"})
        at.push_back(text.find(part));
      places.insert(at);
    }
    EXPECT_EQ(places.size(), 1u) << columns;
  }
}

TEST(Progress, BelowThatTheLeastImportantGoesFirst) {
  EXPECT_EQ(progress_text(state(), 62, 75),
            "epoch  3/15 [====>        ] 2810/s  loss 0.521 acc 81.2% eta 1:02  wait 1%");
  EXPECT_EQ(progress_text(state(), 62, 66),
            "epoch  3/15 [====>        ] 2810/s  loss 0.521 acc 81.2% eta 1:02");
  EXPECT_EQ(progress_text(state(), 62, 59),
            "epoch  3/15 [====>         ] loss 0.521 acc 81.2% eta 1:02");
  EXPECT_EQ(progress_text(state(), 62, 45), "epoch  3/15 loss 0.521 acc 81.2% eta 1:02");
  EXPECT_EQ(progress_text(state(), 62, 35), "epoch  3/15 loss 0.521 acc 81.2%");
  EXPECT_EQ(progress_text(state(), 62, 29), "epoch  3/15 loss 0.521");
  EXPECT_EQ(progress_text(state(), 62, 20), "epoch  3/15");
  for (int columns = 0; columns < 150; ++columns) {
    const std::string text = progress_text(state(), 60, columns);
    EXPECT_LE(text.size(), static_cast<size_t>(columns));
    EXPECT_FALSE(columns > 10 && text.ends_with(' '));
  }
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
