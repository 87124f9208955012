// Training steps of the newest networks: they learn, and every way to run a step gives equal bits.
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::Threads;
using testing_zoo::ZooStep;

struct Case {
  const char* model;
  int64_t side;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

const Case kCases[] = {{"googlenet", 33},          {"seresnet18", 33},
                       {"shufflenet_v2_x0_5", 64}, {"mobilenet_v3_small", 64},
                       {"efficientnet_b0", 64},    {"regnet_y_400mf", 64},
                       {"convnext_atto", 64}};

struct Trained {
  std::vector<float> losses, values;
};

// Trains on the same eight images in every step; only the numbers that dropout draws change.
Trained train(const Case& c, bool eager, int threads, int64_t steps) {
  const Threads scope(threads);
  ModelOptions options{.height = c.side, .width = c.side, .channels = 3, .classes = 10};
  const std::string model = c.model;
  if (model == "convnext_atto" || model == "seresnet18") options.stochastic_depth = 0.1;
  ZooStep step(c.model, options, 8);
  Compiled compiled(step.function(), {.eager = eager});
  Tensors arguments = step.arguments(0);
  Trained run;
  for (int64_t i = 0; i < steps; ++i) {
    arguments[3] = from_vector<int64_t>({2}, {i, 0});
    run.losses.push_back(compiled.call(arguments)[0].item<float>());
  }
  run.values = step.values();
  return run;
}

class Training : public testing::TestWithParam<Case> {};

TEST_P(Training, LowersTheLoss) {
  const Trained run = train(GetParam(), false, 2, 12);
  for (const float loss : run.losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_LT(run.losses.back(), 0.7f * run.losses.front());
}

TEST_P(Training, HasTheSameBitsEagerlyAndWithOtherThreads) {
  const Trained graph = train(GetParam(), false, 1, 2), threads = train(GetParam(), false, 3, 2);
  const Trained eager = train(GetParam(), true, 2, 2);
  EXPECT_EQ(graph.losses, threads.losses);
  EXPECT_EQ(graph.losses, eager.losses);
  EXPECT_EQ(graph.values, threads.values);
  EXPECT_EQ(graph.values, eager.values);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Training, testing::ValuesIn(kCases),
                         [](const auto& named) { return std::string(named.param.model); });

}  // namespace
}  // namespace tessera
