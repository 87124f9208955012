// memory.cost_model: times of a profile replace the roofline.
#include "tessera/models/run/profile_costs.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"
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

// Returns the profile of a step in which the op of node n takes 1000 + n microseconds.
Profile made_up(const Config& config) {
  ProfileOptions options;
  options.steps = 1;
  options.warmup = 0;
  Profile result = profile(config, options);
  for (ProfiledOp& op : result.ops) op.us.median = 1000.0 + static_cast<double>(op.node);
  return result;
}

TEST(ProfileCosts, AnOpTakesWhatItTookThere) {
  const Profile measured = made_up(small(4));
  const auto costs = profile_costs(measured.report().json().text(), "p.json");
  const auto session = prepared_session({small(4), Purpose::timing, DataNeed()});
  const Graph& graph = session->train_step(4).compiled_graph()->graph;
  for (const ProfiledOp& op : measured.ops)
    EXPECT_NEAR(static_cast<double>(costs->nanoseconds(graph, graph.nodes[op.node])),
                1e6 + 1e3 * static_cast<double>(op.node), 1)
        << op.op << " " << op.module_path;
}

TEST(ProfileCosts, OfAnotherBatchInProportion) {
  Profile measured = made_up(small(4));
  const RooflineCosts roofline;
  for (ProfiledOp& op : measured.ops)
    op.us.median = 3 * static_cast<double>(roofline.nanoseconds(op.cost)) / 1000;
  const auto costs = profile_costs(measured.report().json().text(), "p.json");
  const auto session = prepared_session({small(8), Purpose::timing, DataNeed()});
  const Graph& graph = session->train_step(8).compiled_graph()->graph;
  for (const Node& node : graph.nodes) {
    const int64_t once = roofline.nanoseconds(node.op->cost(graph.input_specs(node)));
    EXPECT_NEAR(static_cast<double>(costs->nanoseconds(graph, node)), static_cast<double>(3 * once),
                2 + 0.001 * static_cast<double>(once));
  }
}

// An op without a profile takes as long as the nearest op with its name and algorithm.
TEST(ProfileCosts, OfOtherNetworksLikeTheNearest) {
  Config config = small(4);
  config.model.widths = {4, 8, 32, 64};
  Profile measured = made_up(config);
  const RooflineCosts roofline;
  int64_t least = INT64_MAX, most = 0;
  for (const ProfiledOp& op : measured.ops)
    if (op.op == "conv2d")
      least = std::min(least, op.cost.flops), most = std::max(most, op.cost.flops);
  ASSERT_LT(4 * least, most);
  for (ProfiledOp& op : measured.ops)  // small ones: 7 times the roofline time, large: twice
    op.us.median = static_cast<double>(roofline.nanoseconds(op.cost)) / 1000 *
                   (op.op != "conv2d"          ? 100
                    : op.cost.flops < most / 2 ? 7
                                               : 2);
  const auto costs = profile_costs(measured.report().json().text(), "p.json");
  config.model.widths = {5, 9, 33, 65};
  const auto session = prepared_session({config, Purpose::timing, DataNeed()});
  const Graph& graph = session->train_step(4).compiled_graph()->graph;
  int near_small = 0, near_large = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->name() != "conv2d") continue;
    const auto ratio =
        static_cast<double>(costs->nanoseconds(graph, node)) /
        static_cast<double>(roofline.nanoseconds(node.op->cost(graph.input_specs(node))));
    EXPECT_GT(ratio, 1.9);
    EXPECT_LT(ratio, 7.1);
    near_small += ratio > 5, near_large += ratio < 3;
  }
  EXPECT_GE(near_small, 1);
  EXPECT_GE(near_large, 1);
}

TEST(ProfileCosts, AMachinesFileHasThoseOfSeveralNetworks) {
  constexpr SampleNetwork kTwo[] = {{"lenet5", 28, 2}, {"cnn_bn", 16, 2}};
  ProfileOptions options;
  options.steps = 1, options.warmup = 0;
  std::vector<std::string> started;
  const std::string file = profile_machine(
      Config(), options, kTwo, [&](const SampleNetwork& one) { started.emplace_back(one.model); });
  ASSERT_GE(started.size(), 2u);
  EXPECT_EQ(started[0], "lenet5");
  EXPECT_EQ(started[1], "cnn_bn");
  const std::vector<Json> profiles = Json::parse(file)["profiles"].items();
  EXPECT_EQ(profiles.size(), started.size());
  const auto costs = profile_costs(file, "m.json");
  Config second;
  second.model.name = "cnn_bn";
  second.data.name = "synthetic";
  second.data.image_size = 16;
  second.data.batch = 2;
  const auto session = prepared_session({second, Purpose::timing, DataNeed()});
  const Graph& graph = session->train_step(2).compiled_graph()->graph;
  int checked = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op->name() != "conv2d") continue;
    double sum = 0;
    int rounds = 0;
    for (size_t i = 1; i < profiles.size(); i += 2, ++rounds)
      for (const Json& op : profiles[i]["ops"].items())
        if (op["node"].integer() == static_cast<int64_t>(n)) sum += op["us"]["median"].number();
    EXPECT_NEAR(static_cast<double>(costs->nanoseconds(graph, graph.nodes[n])), 1000 * sum / rounds,
                1);
    ++checked;
  }
  EXPECT_GE(checked, 4);
}

TEST(ProfileCosts, TheSamplesAreOfTheZoo) {
  const std::vector<std::string>& names = model_names();
  EXPECT_GE(sample_networks().size(), 10u);
  for (const SampleNetwork& one : sample_networks())
    EXPECT_EQ(std::count(names.begin(), names.end(), one.model), 1) << one.model;
}

TEST(ProfileCosts, ChoosesByThem) {
  const std::string path = testing::TempDir() + "/costs.json";
  std::ofstream(path) << made_up(small(8)).report().json().text();
  Config config = small(8);
  config.checkpoint.keep = 0;
  const int64_t without = memory_need(config).bytes();
  config.memory.cost_model = path;
  config.memory.budget = ByteSize{without - 20'000};
  const MemoryNeed need = memory_need(config);
  EXPECT_LE(need.bytes(), without - 20'000);
  EXPECT_GE(need.report.budget.extra, 1'000'000);  // each node takes at least a millisecond
}

TEST(ProfileCosts, WhatIsNoProfileIsNamed) {
  EXPECT_THROW(make_cost_model("/nowhere/p.json"), DataError);
  for (const char* text :
       {"", "{}", "{\"format\":\"other\"}", "{\"format\":\"tessera machine 1\",\"profiles\":[]}",
        "{\"format\":\"tessera machine 1\",\"profiles\":[{}]}",
        "{\"format\":\"tessera profile 2\",\"ops\":[]}"}) {
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
