#include "tessera/models/config/schedule.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"
#include "tessera/tests/golden/golden_file.h"

namespace tessera {
namespace {

constexpr auto kEpochs = Duration::Unit::kEpochs;
constexpr auto kSteps = Duration::Unit::kSteps;

ScheduleConfig named(ScheduleKind name) {
  ScheduleConfig config;
  config.name = name;
  return config;
}

const golden::File& updates() {
  static const golden::File opened(TESSERA_SOURCE_DIR "/tests/golden/updates.h5");
  return opened;
}

// The settings are those of tests/golden/updates.py.
TEST(Schedule, IsThatOfPyTorch) {
  std::map<std::string, ScheduleConfig> cases;
  cases["polynomial"] = named(ScheduleKind::kPolynomial);
  cases["polynomial"].power = 2.5;
  cases["exponential"] = named(ScheduleKind::kExponential);
  cases["exponential"].gamma = 0.9;
  cases["exponential"].every = {1, kSteps};
  cases["cosine_restarts"] = named(ScheduleKind::kCosineRestarts);
  cases["cosine_restarts"].period = {6, kSteps};
  cases["cosine_restarts"].final_lr = 0.01;
  cases["cosine_restarts_twice"] = cases["cosine_restarts"];
  cases["cosine_restarts_twice"].period = {0.5, kEpochs};
  cases["cosine_restarts_twice"].period_factor = 2;
  cases["wsd"] = named(ScheduleKind::kWsd);
  cases["wsd"].decay = {1, kEpochs};
  cases["wsd"].final_lr = 0.02;
  for (const auto& [name, config] : cases) {
    const golden::Array wanted = updates().read("schedules/" + name);
    const Schedule schedule(config, 0.2, 10, 40);
    for (size_t step = 0; step < wanted.values.size(); ++step)
      EXPECT_NEAR(schedule.lr(static_cast<int64_t>(step)), wanted.values[step], 1e-14)
          << name << " " << step;
  }
}

TEST(Schedule, AWarmUpComesBeforeAllOfThem) {
  for (const ScheduleKind kind : {ScheduleKind::kPolynomial, ScheduleKind::kExponential,
                                  ScheduleKind::kCosineRestarts, ScheduleKind::kWsd}) {
    ScheduleConfig config = named(kind);
    const Schedule without(config, 0.2, 10, 40);
    config.warmup = {10, kSteps};
    const Schedule schedule(config, 0.2, 10, 50);
    EXPECT_DOUBLE_EQ(schedule.lr(4), 0.1);
    for (int64_t step = 0; step < 40; ++step)
      EXPECT_DOUBLE_EQ(schedule.lr(step + 10), without.lr(step)) << name_of(kind) << step;
  }
}

TEST(Schedule, APlateauReducesAsPyTorchDoes) {
  ScheduleConfig config = named(ScheduleKind::kPlateau);
  config.gamma = 0.5;
  config.patience = 2;
  config.cooldown = 1;
  config.final_lr = 0.06;
  const golden::Array wanted = updates().read("schedules/plateau");
  const golden::Array losses = updates().read("schedules/plateau_losses");
  Plateau state;
  for (size_t i = 0; i < losses.values.size(); ++i) {
    look_at_plateau(config, 0.2, losses.values[i], state);
    EXPECT_NEAR(0.2 * state.factor, wanted.values[i], 1e-14) << i;
  }
  EXPECT_LT(wanted.values.back(), 0.07);
  // A loss that is NaN or infinite is no improvement, not even as the first.
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    Plateau diverged;
    look_at_plateau(config, 0.2, bad, diverged);
    EXPECT_EQ(diverged, (Plateau{.bad = 1}));
    for (const double loss : {1.0, bad, bad, bad}) look_at_plateau(config, 0.2, loss, diverged);
    EXPECT_EQ(diverged, (Plateau{.factor = 0.5, .best = 1, .cooldown = 1}));
  }
  // A minimum rate above the initial rate does not raise it.
  config.final_lr = 1;
  Plateau high;
  for (int i = 0; i < 9; ++i) look_at_plateau(config, 0.2, 1, high);
  EXPECT_EQ(high.factor, 1);
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
  Schedule schedule(config, 1.0, 10, 50);  // 10 steps of warmup, 40 of decay
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

ScheduleConfig cycle_to(double peak_at) {
  ScheduleConfig config = named(ScheduleKind::kOneCycle);
  config.start_factor = 0.1;
  config.peak_at = peak_at;
  config.final_lr = 0.05;
  return config;
}

// Compares with torch.optim.lr_scheduler.OneCycleLR(max_lr=2, total_steps, pct_start,
// div_factor=10, final_div_factor=4). Its two phases end at pct_start total_steps - 1 and
// total_steps - 1.
TEST(Schedule, OneCycleIsThatOfPyTorch) {
  const std::vector<std::pair<double, std::vector<double>>> cases{
      {0.3,
       {0.2, 1.1, 2, 1.903444646204859, 1.632902556812265, 1.241957910607407, 0.8080420893925936,
        0.4170974431877348, 0.1465553537951415, 0.05}},
      {0.23,
       {0.2, 1.97491840287336, 1.697141240918151, 1.197415251675404, 0.6407557481856089,
        0.2109781497038821, 0.05}},
      {0.3, {1.9891100555695, 0.9521381587532364, 0.05}}};
  for (const auto& [peak_at, wanted] : cases) {
    const Schedule schedule(cycle_to(peak_at), 2, 10, std::ssize(wanted));
    for (size_t step = 0; step < wanted.size(); ++step)
      EXPECT_NEAR(schedule.lr(static_cast<int64_t>(step)), wanted[step], 1e-14) << step;
    EXPECT_EQ(schedule.lr(std::ssize(wanted) + 5), 0.05);
  }
  const Schedule one(cycle_to(0.5), 2, 10, 2);  // the peak is the first step
  EXPECT_DOUBLE_EQ(one.lr(0), 2);
  EXPECT_EQ(one.lr(1), 0.05);
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
