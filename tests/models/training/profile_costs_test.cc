// memory.costs: times of a profile in place of counted ones.
#include "tessera/models/training/profile_costs.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tessera/graph/program.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/profile.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

Config small(int64_t batch) {
  Config config;
  config.model.name = "cnn_bn";
  config.model.widths = {8, 8, 16, 16};
  config.data.name = "synthetic";
  config.data.image_size = 16;
  config.data.batch = batch;
  return config;
}

// Of a step for so many images, each op as long as its number in the program says.
Profile made_up(int64_t batch) {
  ProfileOptions options;
  options.steps = 1;
  options.warmup = 0;
  Profile result = profile(small(batch), options);
  for (ProfiledOp& op : result.ops) op.us.median = 1000.0 + static_cast<double>(op.node);
  return result;
}

TEST(ProfileCosts, AnOpTakesWhatItTookThere) {
  const Profile measured = made_up(4);
  const auto costs = profile_costs(measured.json(), "p.json");
  const auto session = prepared_session(small(4), DataNeed(), Purpose::timing);
  const Graph& graph = session->train_step(4).program()->graph();
  for (const ProfiledOp& op : measured.ops)
    EXPECT_NEAR(static_cast<double>(costs->nanoseconds(graph, graph.nodes[op.node])),
                1e6 + 1e3 * static_cast<double>(op.node), 1)
        << op.op << " " << op.place;
}

TEST(ProfileCosts, OfAnotherBatchInProportion) {
  const auto costs = profile_costs(made_up(4).json(), "p.json");
  const auto session = prepared_session(small(8), DataNeed(), Purpose::timing);
  const Graph& graph = session->train_step(8).program()->graph();
  const CountedCosts counted;
  for (const Node& node : graph.nodes) {
    if (node.op->name() != "conv2d") continue;
    const int64_t ns = costs->nanoseconds(graph, node);
    EXPECT_GT(ns, 1'000'000);
    EXPECT_LT(ns, 2'100'000);  // twice the images
    EXPECT_NE(ns, counted.nanoseconds(graph, node));
  }
}

TEST(ProfileCosts, ChoosesByThem) {
  const std::string path = testing::TempDir() + "/costs.json";
  std::ofstream(path) << made_up(8).json();
  Config config = small(8);
  config.checkpoint.keep = 0;
  const int64_t without = memory_need(config).bytes();
  config.memory.costs = path;
  config.memory.budget = ByteSize{without - 20'000};
  const MemoryNeed need = memory_need(config);
  EXPECT_LE(need.bytes(), without - 20'000);
  EXPECT_GE(need.report.budget.extra, 1'000'000);  // each step takes a millisecond or more
}

TEST(ProfileCosts, WhatIsNoProfileIsNamed) {
  EXPECT_THROW(costs_named("/nowhere/p.json"), DataError);
  for (const char* text :
       {"", "{}", "{\"format\":\"other\"}", "{\"format\":\"tessera profile 1\",\"ops\":[]}"}) {
    try {
      profile_costs(text, "p.json");
      FAIL() << text;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("p.json"), std::string::npos) << error.what();
      EXPECT_EQ(error.exit_code(), 3);
    }
  }
}

}  // namespace
}  // namespace tessera
