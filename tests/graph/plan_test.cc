// Compares the memory of every network with eager execution and with the lower bound. Lifetimes are
// computed here a second time, from the graph alone, so that an error in graph/lifetimes.cc cannot
// hide.
#include <algorithm>
#include <chrono>
#include <numeric>

#include <gtest/gtest.h>

#include "tessera/engine/eager.h"
#include "tessera/engine/prepare.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/memory/plan_check.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::natural_options;
using testing_zoo::small_options;
using testing_zoo::Threads;
using testing_zoo::ZooStep;

// Blocks of the arena and their exact bytes, from the nodes of a graph. Values that share bytes
// (views, and outputs in place of an input) are one block, from its first producer to its last
// user.
class OwnLifetimes {
 public:
  // `program` determines which outputs are in place; nullptr: none, as in eager mode.
  OwnLifetimes(const Graph& graph, const Program* program)
      : graph_(graph), parent_(graph.values.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    first_.assign(parent_.size(), -1);
    last_.assign(parent_.size(), -1);
    find_views();
    for (size_t s = 0; s < graph.nodes.size(); ++s) add_node(static_cast<int>(s), program);
    for (ValueId id : graph.outputs) slots_.push_back(find(id));
    add_scratch(program);
  }

  // Faults found: outputs in place of inputs that do not allow it.
  const std::string& faults() const { return faults_; }
  // The blocks, and their offsets in the program; sizes are exact, not rounded.
  const Problem& problem() const { return problem_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }

  // Returns the maximum of live bytes.
  int64_t peak() const {
    std::vector<int64_t> live(graph_.nodes.size() + 2, 0);
    for (const Interval& block : problem_.buffers) {
      live[static_cast<size_t>(block.lower)] += block.size;
      live[static_cast<size_t>(block.upper)] -= block.size;
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    return *std::max_element(live.begin(), live.end());
  }

 private:
  ValueId find(ValueId id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }

  void find_views() {
    for (const Node& node : graph_.nodes)
      for (size_t o = 0; o < node.outputs.size(); ++o)
        if (int view = node.op->view_of(static_cast<int>(o)); view >= 0)
          parent_[node.outputs[o]] = find(node.inputs[view]);
    reads_.resize(graph_.values.size());
    for (size_t s = 0; s < graph_.nodes.size(); ++s)
      for (ValueId id : graph_.nodes[s].inputs) reads_[find(id)] = static_cast<int>(s);
    for (ValueId id : graph_.outputs) reads_[find(id)] = static_cast<int>(graph_.nodes.size());
  }

  void add_node(int s, const Program* program) {
    const Node& node = graph_.nodes[s];
    ValueId taken = -1;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId id = node.outputs[o];
      if (node.op->view_of(static_cast<int>(o)) >= 0 || node.op->updates(static_cast<int>(o)) >= 0)
        continue;
      const ValueId under = program ? shared_input(s, static_cast<int>(o), *program) : -1;
      if (under >= 0) {
        if (under == taken) faults_ += "two outputs on one input at step " + std::to_string(s);
        taken = under;
        last_[under] = std::max({last_[under], reads_[id], s});
        parent_[id] = under;
      } else {
        first_[id] = s;
        last_[id] = std::max(reads_[id], s);
      }
    }
  }

  // Returns the block of the input in whose place the program computes output o of node s; -1 if
  // none. Records a fault if that is not allowed.
  ValueId shared_input(int s, int o, const Program& program) {
    const Node& node = graph_.nodes[s];
    const ValueId id = node.outputs[o];
    const int block = program.compiled().lifetimes.block_of[id];
    ValueId under = -1;
    bool allowed = false;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId input = node.inputs[k];
      if (program.compiled().lifetimes.block_of[input] != block) continue;
      if (under >= 0 && input != node.inputs[k - 1] && !same_whole(input, under)) allowed = false;
      under = find(input);
      allowed = k < 32 && (node.op->may_reuse(o) >> k & 1) &&
                graph_.values[input].spec.bytes() == graph_.values[id].spec.bytes() &&
                last_[under] <= s;
    }
    if (under >= 0 && !allowed)
      faults_ += "step " + std::to_string(s) + " writes " + graph_.value_text(id) +
                 " over an input that it may not overwrite; ";
    return under;
  }
  bool same_whole(ValueId a, ValueId b) const { return find(a) == find(b); }

  void add_block(int first, int last, int64_t bytes, int64_t offset) {
    problem_.buffers.push_back({.lower = first, .upper = last + 1, .size = bytes});
    offsets_.push_back(offset);
  }

  void add_scratch(const Program* program) {
    for (ValueId id = 0; id < static_cast<ValueId>(parent_.size()); ++id) {
      if (parent_[id] != id || first_[id] < 0) continue;
      if (std::find(slots_.begin(), slots_.end(), id) != slots_.end()) continue;
      const int64_t at =
          program ? program->compiled().offsets[program->compiled().lifetimes.block_of[id]] : 0;
      add_block(first_[id], last_[id], static_cast<int64_t>(graph_.values[id].spec.bytes()), at);
    }
    for (size_t s = 0; s < graph_.nodes.size(); ++s) {
      const Node& node = graph_.nodes[s];
      if (node.op->view_of(0) >= 0) continue;
      const Algorithm chosen =
          choose_algorithm(*node.op, graph_.input_specs(node), context(node.device).target());
      if (chosen.scratch_bytes == 0) continue;
      const int64_t at =
          program ? program->compiled().offsets[program->compiled().lifetimes.scratch[s]] : 0;
      add_block(static_cast<int>(s), static_cast<int>(s),
                static_cast<int64_t>(chosen.scratch_bytes), at);
    }
  }

  const Graph& graph_;
  std::vector<ValueId> parent_, slots_;
  std::vector<int> first_, last_, reads_;  // indexed by the first value of a block
  Problem problem_;
  std::vector<int64_t> offsets_;
  std::string faults_;
};

// A step, its recorded graph and its program, which is not bound to memory.
struct Planned {
  Planned(const std::string& model, const ModelOptions& options, int64_t batch)
      : step(model, options, batch),
        recorded(capture(step.function(), step.specs())),
        compiled(step.function(), {}),
        program(*compiled.prepare(step.specs()).program()) {}

  ZooStep step;
  Graph recorded;
  Compiled compiled;
  Program& program;
};

double ratio(int64_t plan, int64_t bound) {
  return static_cast<double>(plan) / static_cast<double>(bound);
}

int64_t natural_batch(const std::string& model) {
  return model == "resnet101" || model == "resnet152" ? 1 : 4;
}

class Plans : public testing::TestWithParam<std::string> {};

TEST_P(Plans, ArenaIsWithinTwoPercentOfTheLowerBoundWorkedOutIndependently) {
  const Threads threads(2);
  const Planned planned(GetParam(), natural_options(GetParam()), natural_batch(GetParam()));
  const Program& program = planned.program;
  const OwnLifetimes own(program.compiled().graph, &program);
  EXPECT_EQ(own.faults(), "");
  EXPECT_EQ(program.compiled().planner, "best");
  EXPECT_FALSE(check(program.compiled().problem(), program.compiled().plan()));
  // The plan is also valid for these lifetimes.
  const auto fault = check(own.problem(), {own.offsets(), program.compiled().plan().bytes});
  EXPECT_FALSE(fault) << fault->text;
  const int64_t arena = program.compiled().plan().bytes;
  EXPECT_LE(arena, own.peak() * 1.02);
  EXPECT_GE(arena, own.peak());

  // Eager mode runs the recorded nodes and nothing in place: it holds every value at least from its
  // producer to its last user.
  const OwnLifetimes eager(planned.recorded, nullptr);
  EXPECT_LE(own.peak(), eager.peak());
  EXPECT_LE(arena, eager.peak()) << "the arena against the least that eager can hold";
  RecordProperty("arena", std::to_string(arena));
  RecordProperty("arena_by_lower_bound", std::to_string(ratio(arena, own.peak())));
  RecordProperty("arena_by_least_of_eager", std::to_string(ratio(arena, eager.peak())));
}

// The large networks run on images of 64x64.
TEST_P(Plans, ArenaIsAtOrUnderTheMostBytesThatEagerHasLive) {
  const Threads threads(2);
  const Planned planned(GetParam(), small_options(GetParam()), natural_batch(GetParam()));
  ZooStep eager(GetParam(), small_options(GetParam()), natural_batch(GetParam()));
  eager.store.materialize();
  const Tensors arguments = eager.arguments(0);
  Allocator& allocator = eager_allocator(Device{});
  allocator.reset_peak();
  const size_t before = allocator.statistics().live_bytes;
  eager(arguments);
  const size_t peak = allocator.statistics().peak_live_bytes - before;
  EXPECT_LE(planned.program.compiled().arena_bytes(), peak);
  EXPECT_EQ(allocator.statistics().live_bytes, before) << "eager did not give everything back";
  RecordProperty("arena", std::to_string(planned.program.compiled().arena_bytes()));
  RecordProperty("eager_peak", std::to_string(peak));
  RecordProperty(
      "arena_by_eager",
      std::to_string(ratio(static_cast<int64_t>(planned.program.compiled().arena_bytes()),
                           static_cast<int64_t>(peak))));
}

INSTANTIATE_TEST_SUITE_P(Zoo, Plans, testing::ValuesIn(model_names()),
                         [](const auto& info) { return info.param; });

// The limit is PyTorch's peak of live bytes in the same step, with its tape freed on the way.
TEST(Plan, ResNet50WithABatchOf32At224NeedsNoMoreThanPyTorch) {
  const Threads threads(2);
  ZooStep step("resnet50", natural_options("resnet50"), 32);
  Compiled compiled(step.function(), {});
  const auto start = std::chrono::steady_clock::now();
  const Program& program = *compiled.prepare(step.specs()).program();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const OwnLifetimes own(program.compiled().graph, &program);
  EXPECT_EQ(own.faults(), "");
  EXPECT_LE(program.compiled().arena_bytes(), 2'769'203'240u);
  EXPECT_LE(program.compiled().plan().bytes, own.peak() * 1.02);
  RecordProperty("arena", std::to_string(program.compiled().arena_bytes()));
  RecordProperty("seconds", std::to_string(took.count()));
}

TEST(Plan, CompileTimeOfResNet20) {
  ZooStep step("resnet20", {}, 128);
  Compiled compiled(step.function(), {});
  const CompiledStep& ready = compiled.prepare(step.specs());
  EXPECT_GT(ready.compile_milliseconds(), 0);
  RecordProperty("milliseconds", std::to_string(ready.compile_milliseconds()));
}

}  // namespace
}  // namespace tessera
