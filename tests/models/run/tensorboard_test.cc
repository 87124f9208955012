#include "tessera/models/run/tensorboard.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/tests/models/run/event_reader.h"
#include "tessera/tests/models/run/faulty_files.h"

namespace tessera {
namespace {

class Events : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/events_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST(Crc32c, KnownValues) {  // RFC 3720, B.4
  const auto crc = [](const std::string& text) { return crc32c(std::as_bytes(std::span(text))); };
  EXPECT_EQ(crc(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc("123456789"), 0xe3069283u);
}

TEST_F(Events, ReadBackWhatWasWritten) {
  std::string path;
  {
    EventWriter writer(folder_, "test");
    path = writer.path();
    writer.scalar("train/loss", 1, 2.5f);
    writer.scalar("test/accuracy", int64_t{1} << 40, 0.125f);
    writer.scalar("train/loss", 3, std::nanf(""));
  }
  const auto read = read_events(path);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].tag, "train/loss");
  EXPECT_EQ(read[0].step, 1);
  EXPECT_EQ(read[0].value, 2.5f);
  EXPECT_EQ(read[1].tag, "test/accuracy");
  EXPECT_EQ(read[1].step, int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(read[2].value));
}

TEST_F(Events, EveryDamagedByteIsNoticed) {
  std::string path;
  {
    EventWriter writer(folder_, "test");
    path = writer.path();
    writer.scalar("loss", 1, 2.5f);
  }
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string good = text.str();
  const auto write = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  };
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write(bad);
    EXPECT_THROW(read_events(path), DataError) << "byte " << i;
    write(good.substr(0, i));
    const bool between_records = i == 0 || i == 12 + 24 + 4 || i == 40 + 12 + 15 + 4;
    if (between_records)
      EXPECT_NO_THROW(read_events(path)) << "byte " << i;
    else
      EXPECT_THROW(read_events(path), DataError) << "byte " << i;
  }
}

// The disk has space for `room` bytes, and for everything after three points.
TEST_F(Events, AFullDiskCostsPointsButLeavesAFileThatIsWhole) {
  set_log_sink([](LogLevel, std::string_view) {});
  for (int64_t room = 0; room < 300; ++room) {
    testing_checkpoint::FullDisk disk("tfevents", room);
    EventWriter writer(folder_, "test", 0, disk);
    for (int64_t step : {1, 2, 3}) {
      writer.scalar("train/loss", step, 2.5f);
      EXPECT_NO_THROW(read_events(writer.path())) << room;
    }
    disk.make_room(1 << 20);
    writer.scalar("train/loss", 4, 2.5f);
    const auto points = read_events(writer.path());
    ASSERT_FALSE(points.empty());
    EXPECT_EQ(points.back().step, 4);
    const std::string missing = std::to_string(4 - points.size());
    EXPECT_EQ(writer.error_summary(), missing == "0"
                                          ? ""
                                          : "'" + writer.path() + "' lacks " + missing +
                                                " of 4 points (No space left on device)");
    // Readers need the version at the beginning.
    std::ostringstream bytes;
    bytes << std::ifstream(writer.path(), std::ios::binary).rdbuf();
    EXPECT_NE(bytes.str().substr(0, 40).find("brain.Event:2"), std::string::npos) << room;
    std::filesystem::remove(writer.path());
  }
  set_log_sink({});
}

TEST_F(Events, AFolderThatIsNotThere) {
  EXPECT_THROW(EventWriter(folder_ + "/none", "test"), Error);
  EXPECT_THROW(read_events(folder_ + "/none"), DataError);
}

}  // namespace
}  // namespace tessera
