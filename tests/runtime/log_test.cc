#include "tessera/runtime/log.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

class Log : public testing::Test {
 protected:
  Log() : level_(log_level()) {
    set_log_sink([this](LogLevel, std::string_view text) { lines_.emplace_back(text); });
  }
  ~Log() override {
    set_log_sink({});
    set_log_level(level_);
  }

  const LogLevel level_;
  std::vector<std::string> lines_;
};

TEST_F(Log, ShowsItsLevelAndAbove) {
  set_log_level(LogLevel::info);
  log(LogLevel::debug, "a");
  log(LogLevel::info, "b");
  log(LogLevel::error, "c");
  EXPECT_EQ(lines_, (std::vector<std::string>{"b", "c"}));
  EXPECT_FALSE(log_enabled(LogLevel::debug));
  EXPECT_TRUE(log_enabled(LogLevel::warning));
}

TEST_F(Log, OffShowsNothing) {
  set_log_level(LogLevel::off);
  log(LogLevel::error, "a");
  log(LogLevel::off, "b");
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Log, LevelsHaveNames) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
  EXPECT_EQ(parse_log_level("off"), LogLevel::off);
  EXPECT_THROW(parse_log_level("loud"), ConfigError);
}

TEST_F(Log, GoesToStderrWithoutASink) {
  set_log_sink({});
  set_log_level(LogLevel::warning);
  testing::internal::CaptureStderr();
  log(LogLevel::warning, "the disk is slow");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tessera warning: the disk is slow\n");
}

}  // namespace
}  // namespace tessera
