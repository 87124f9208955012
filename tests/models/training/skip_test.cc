// train.non_finite: skip. One gradient overflows, after finite ones in the backward pass: a batch
// is skipped as a whole or not at all.
#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/storage.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"

namespace tessera {
namespace {

constexpr int kHidden = 16;

Config small(Mode mode, const char* optimizer, OnNonFinite non_finite) {
  Config config;
  config.mode = mode;
  config.model.name = "mlp";
  config.model.widths = {kHidden};
  config.model.classes = 10;
  config.optimizer.name = optimizer;
  config.train.non_finite = non_finite;
  return config;
}

class Step {
 public:
  explicit Step(const Config& config) : session_(config, Device{}, {4, 4, 1}, {{0}, {1}}) {
    step_ = &session_.train_step(1);
    session_.bind();
    images_.fill(200);
  }

  // Keeps the gradients of the last layer finite; the gradient of its input is 6e38.
  void overflow_behind_the_last_layer() {
    std::vector<float> weights(10 * kHidden, 3e38f);  // [10 x kHidden], the first row the label's
    std::fill_n(weights.begin(), kHidden, -3e38f);
    assign("fc1.weight", std::vector<float>(kHidden * 16));
    assign("fc1.bias", std::vector<float>(kHidden, 1e-38f));
    assign("fc2.weight", weights);
  }

  void run() {
    const int32_t label = 0;
    const int64_t position[2] = {0, 0};
    Tensor(step_->input(0)).assign(std::span<const uint8_t>(images_));
    Tensor(step_->input(1)).assign(std::span(&label, 1));
    Tensor(step_->input(2)).assign_scalar(0.1);
    Tensor(step_->input(3)).assign(std::span<const int64_t>(position));
    step_->run();
  }

  std::vector<std::vector<float>> state() {
    std::vector<std::vector<float>> all;
    for (const Tensor& tensor : session_.store().persistent()) {
      if (tensor.dtype() == DType::f32) {
        all.push_back(tensor.to_vector<float>());
      } else {
        for (int64_t count : tensor.to_vector<int64_t>())
          all.push_back({static_cast<float>(count)});
      }
    }
    return all;
  }
  double output(size_t i) { return step_->output(i).item<double>(); }
  size_t outputs() const { return step_->outputs(); }

 private:
  void assign(const char* name, const std::vector<float>& values) {
    session_.store().find(name).assign(std::span(values));
  }

  Session session_;
  CompiledStep* step_;
  std::array<uint8_t, 16> images_;
};

class Skip : public testing::TestWithParam<std::pair<Mode, const char*>> {};

TEST_P(Skip, LeavesEverythingAsItWas) {
  const auto [mode, optimizer] = GetParam();
  Step step(small(mode, optimizer, OnNonFinite::kSkip));
  step.run();
  EXPECT_DOUBLE_EQ(step.output(2), 0.1);
  step.overflow_behind_the_last_layer();
  const auto before = step.state();
  const int64_t refused = cpu_context().skipped_updates();
  step.run();
  EXPECT_TRUE(std::isfinite(step.output(0)));
  EXPECT_TRUE(std::isnan(step.output(2)));
  EXPECT_GT(cpu_context().skipped_updates(), refused);
  EXPECT_EQ(step.state(), before);
}

// Proves the test above: some of the gradients are finite.
TEST_P(Skip, WithoutItTheGoodOnesAreUsed) {
  const auto [mode, optimizer] = GetParam();
  Step step(small(mode, optimizer, OnNonFinite::kStop));
  step.overflow_behind_the_last_layer();
  const auto before = step.state();
  step.run();
  EXPECT_EQ(step.outputs(), 2u);
  EXPECT_NE(step.state(), before);
}

// One step whose loss overflows float16 when scaled, and one that does not.
TEST(LossScaling, AnOverflowOnlyHalvesTheScale) {
  for (const Mode mode : {Mode::kGraph, Mode::kEager}) {
    Config config = small(mode, "sgd", OnNonFinite::kStop);
    config.precision = Precision::f16;
    config.train.loss_scale = 0x1p28;
    Step step(config);
    const auto before = step.state();
    step.run();
    EXPECT_TRUE(std::isfinite(step.output(0)));
    EXPECT_TRUE(std::isnan(step.output(2)));
    EXPECT_EQ(step.output(3), 0x1p-28);
    auto after = step.state();
    EXPECT_EQ(after.end()[-2], std::vector<float>{0x1p27f});
    after.end()[-2] = {0x1p28f};
    EXPECT_EQ(after, before);
    for (int i = 0; i < 20; ++i) step.run();
    EXPECT_DOUBLE_EQ(step.output(2), 0.1);
    EXPECT_NE(step.state().front(), before.front());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Skip,
    testing::Values(std::pair(Mode::kGraph, "sgd"), std::pair(Mode::kGraph, "adamw"),
                    std::pair(Mode::kEager, "sgd"), std::pair(Mode::kEager, "adamw")),
    [](const auto& about) {
      return std::string(name_of(about.param.first)) + "_" + about.param.second;
    });

}  // namespace
}  // namespace tessera
