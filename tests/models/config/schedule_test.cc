#include "tessera/models/config/schedule.h"

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr auto kEpochs = Duration::Unit::kEpochs;
constexpr auto kSteps = Duration::Unit::kSteps;

ScheduleConfig named(ScheduleKind name) {
  ScheduleConfig config;
  config.name = name;
  return config;
}

TEST(Schedule, ConstantWithWarmup) {
  ScheduleConfig config = named(ScheduleKind::kConstant);
  config.warmup = {4, kSteps};
  Schedule schedule(config, 0.8, 10, 100);
  EXPECT_DOUBLE_EQ(schedule.lr(0), 0.2);
  EXPECT_DOUBLE_EQ(schedule.lr(1), 0.4);
  EXPECT_DOUBLE_EQ(schedule.lr(3), 0.8);
  EXPECT_DOUBLE_EQ(schedule.lr(4), 0.8);
  EXPECT_DOUBLE_EQ(schedule.lr(99), 0.8);
}

TEST(Schedule, CosineGoesDownAfterTheWarmup) {
  ScheduleConfig config = named(ScheduleKind::kCosine);
  config.warmup = {1, kEpochs};
  config.final_lr = 0.2;
  Schedule schedule(config, 1.0, 10, 50);  // 10 up, 40 down
  EXPECT_DOUBLE_EQ(schedule.lr(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.lr(10), 1.0);
  EXPECT_NEAR(schedule.lr(20), 0.2 + 0.8 * 0.8535533905932737, 1e-15);  // (1 + cos(pi/4)) / 2
  EXPECT_NEAR(schedule.lr(30), 0.6, 1e-15);
  EXPECT_DOUBLE_EQ(schedule.lr(50), 0.2);
  EXPECT_DOUBLE_EQ(schedule.lr(60), 0.2);
}

TEST(Schedule, Linear) {
  ScheduleConfig config = named(ScheduleKind::kLinear);
  config.warmup = {2, kSteps};
  Schedule schedule(config, 1.0, 10, 12);
  EXPECT_DOUBLE_EQ(schedule.lr(0), 0.5);
  EXPECT_DOUBLE_EQ(schedule.lr(2), 1.0);
  EXPECT_DOUBLE_EQ(schedule.lr(7), 0.5);
  EXPECT_DOUBLE_EQ(schedule.lr(12), 0.0);
}

TEST(Schedule, StepMultipliesEachTime) {
  ScheduleConfig config = named(ScheduleKind::kStep);
  config.every = {2, kEpochs};
  config.gamma = 0.5;
  Schedule schedule(config, 1.0, 10, 100);
  EXPECT_DOUBLE_EQ(schedule.lr(19), 1.0);
  EXPECT_DOUBLE_EQ(schedule.lr(20), 0.5);
  EXPECT_DOUBLE_EQ(schedule.lr(60), 0.125);
}

TEST(Schedule, MultistepMultipliesAtEachMilestone) {
  ScheduleConfig config = named(ScheduleKind::kMultistep);
  config.milestones = {{32000, kSteps}, {48000, kSteps}};
  Schedule schedule(config, 0.1, 391, 64000);
  EXPECT_DOUBLE_EQ(schedule.lr(31999), 0.1);
  EXPECT_DOUBLE_EQ(schedule.lr(32000), 0.01);
  EXPECT_DOUBLE_EQ(schedule.lr(47999), 0.01);
  EXPECT_NEAR(schedule.lr(48000), 0.001, 1e-18);
}

TEST(Schedule, OneCycleRisesAndFalls) {
  ScheduleConfig config = named(ScheduleKind::kOneCycle);
  config.start_factor = 0.1;
  config.peak_at = 0.2;
  config.final_lr = 0.5;
  Schedule schedule(config, 2.0, 10, 100);
  EXPECT_DOUBLE_EQ(schedule.lr(0), 0.2);
  EXPECT_NEAR(schedule.lr(10), 1.1, 1e-15);  // half way up
  EXPECT_DOUBLE_EQ(schedule.lr(20), 2.0);
  EXPECT_NEAR(schedule.lr(60), 1.25, 1e-15);  // half way down
  EXPECT_NEAR(schedule.lr(100), 0.5, 1e-15);
}

TEST(Schedule, ATrainingShorterThanItsWarmupIsCutShort) {
  ScheduleConfig config = named(ScheduleKind::kCosine);
  config.warmup = {100, kSteps};
  Schedule schedule(config, 1.0, 10, 50);
  EXPECT_DOUBLE_EQ(schedule.lr(49), 0.5);
}

TEST(Schedule, RefusesWhatCannotBeMeant) {
  EXPECT_THROW(Schedule(named(ScheduleKind::kCosine), 1, 0, 100), ConfigError);
  ScheduleConfig step = named(ScheduleKind::kStep);
  step.every = {0, kEpochs};
  EXPECT_THROW(Schedule(step, 1, 10, 100), ConfigError);
  ScheduleConfig mixed = named(ScheduleKind::kMultistep);
  mixed.milestones = {{2, kEpochs}, {15, kSteps}};  // steps 20 and 15
  EXPECT_THROW(Schedule(mixed, 1, 10, 100), ConfigError);
  EXPECT_NO_THROW(Schedule(mixed, 1, 5, 100));  // steps 10 and 15
  ScheduleConfig cycle = named(ScheduleKind::kOneCycle);
  cycle.warmup = {1, kEpochs};
  EXPECT_THROW(Schedule(cycle, 1, 10, 100), ConfigError);
}

}  // namespace
}  // namespace tessera
