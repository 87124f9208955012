// Times and scratch sizes of the algorithms of a step's ops.
#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/engine/op.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

Config small() {
  Config config;
  config.model.name = "cnn_bn";
  config.model.widths = {8, 8, 16, 16};
  config.data.name = "synthetic";
  config.data.image_size = 16;
  config.data.batch = 2;
  return config;
}

TEST(AlgorithmTimes, ThoseOfEveryOpThatHasSeveralWithTheirScratch) {
  const AlgorithmTimes times = algorithm_times(small(), 2);
  const auto session = prepared_session({small(), Purpose::timing, DataNeed()});
  const Program& program = *session->train_step(2).program();
  int several = 0, counted = 0;
  for (const Node& node : program.compiled().graph.nodes)
    several +=
        node.op->algorithms(program.compiled().graph.input_specs(node), cpu_context().target())
            .size() > 1;
  for (const OpAlgorithms& op : times.ops) {
    counted += op.count;
    const Node& node = program.compiled().graph.nodes[op.node];
    const auto all =
        node.op->algorithms(program.compiled().graph.input_specs(node), cpu_context().target());
    ASSERT_EQ(op.algorithms.size(), all.size());
    EXPECT_EQ(op.op, node.op->name());
    EXPECT_EQ(op.algorithms.front().name, program.compiled().algorithms[op.node]);
    for (const AlgorithmTime& time : op.algorithms) {
      EXPECT_GT(time.us, 0);
      const auto same = std::find_if(all.begin(), all.end(),
                                     [&](const Algorithm& one) { return one.name == time.name; });
      ASSERT_NE(same, all.end());
      EXPECT_EQ(time.scratch_bytes, static_cast<int64_t>(same->scratch_bytes));
    }
  }
  EXPECT_GE(several, 8);
  EXPECT_EQ(counted, several);
}

TEST(AlgorithmTimes, WhatAMiBLessCosts) {
  const AlgorithmTimes times{
      {{.op = "conv2d",
        .module_path = "conv1",
        .shape = "[1] -> [1]",
        .algorithms = {
            {"winograd4", 3 << 20, 1000}, {"direct", 1 << 20, 5000}, {"eigen", 4 << 20, 9000}}}}};
  const std::vector<Json> all = times.report().json()["ops"].items()[0]["algorithms"].items();
  EXPECT_EQ(all[0]["ms_per_mib"].text(), "null");
  EXPECT_EQ(all[1]["ms_per_mib"].number(), 2);
  EXPECT_EQ(all[2]["ms_per_mib"].text(), "null");
  EXPECT_NE(times.report().text().find("5000.0        1.000       2.000  direct"),
            std::string::npos)
      << times.report().text();
}

TEST(AlgorithmTimes, NeedAGraph) {
  Config eager = small();
  eager.mode = Mode::kEager;
  EXPECT_THROW(algorithm_times(eager, 1), ConfigError);
}

}  // namespace
}  // namespace tessera
