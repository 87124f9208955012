// Shortens lifetimes on purpose, in every network: if the plan then overwrites a value that is
// still needed, replay() must report it.
#include "tessera/graph/lifetimes.h"

#include <cstdlib>
#include <regex>

#include <gtest/gtest.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/memory/plan_check.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::small_options;
using testing_zoo::ZooStep;

// Returns the stride at which n blocks are tested: 1, but more for the three deepest networks
// unless TESSERA_LONG_TESTS is set.
size_t stride(size_t blocks) {
  constexpr size_t kMax = 1000;
  return std::getenv("TESSERA_LONG_TESTS") != nullptr ? 1 : (blocks + kMax - 1) / kMax;
}

struct Outcome {
  int shortened = 0, overwritten = 0;
};

class WrongLifetimes : public testing::TestWithParam<std::string> {
 protected:
  WrongLifetimes()
      : step_(GetParam(), small_options(GetParam()), 2),
        compiled_(step_.function(), {}),
        program_(*compiled_.prepare(step_.specs()).program()),
        truth_(program_.compiled().lifetimes.problem(&blocks_)) {}

  // Returns the offset of each block under another plan.
  std::vector<int64_t> offsets_of(const Plan& plan) const {
    std::vector<int64_t> offsets = program_.compiled().offsets;
    for (size_t i = 0; i < blocks_.size(); ++i) offsets[blocks_[i]] = plan.offsets[i];
    return offsets;
  }

  // Expects that the text names a node by number and op, and a value of block `first` or `second`.
  void expect_names_the_fault(const std::string& text, int first, int second) const {
    std::smatch match;
    ASSERT_TRUE(std::regex_search(text, match, std::regex("^node (\\d+) \\(([^ )]+)"))) << text;
    const auto s = static_cast<size_t>(std::stoi(match[1]));
    ASSERT_LT(s, program_.compiled().graph.nodes.size()) << text;
    EXPECT_EQ(match[2].str(), program_.compiled().graph.nodes[s].op->name()) << text;
    bool named = false;
    for (int block : {first, second}) named = named || names_block(text, block);
    EXPECT_TRUE(named) << text << "; blocks " << first << ", " << second;
  }

  bool names_block(const std::string& text, int block) const {
    const Lifetimes& lifetimes = program_.compiled().lifetimes;
    if (lifetimes.blocks[block].node >= 0) return text.find("scratch") != std::string::npos;
    for (size_t id = 0; id < lifetimes.block_of.size(); ++id) {
      if (lifetimes.block_of[id] != block) continue;
      const std::string name = program_.compiled().graph.value_text(static_cast<ValueId>(id));
      for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
        if (!std::isdigit(static_cast<unsigned char>(text[at + name.size()]))) return true;
    }
    return false;
  }

  // Expects a fault from replay() exactly if check() of the true lifetimes, which shares no code
  // with it, finds one. Returns true if there is one.
  bool expect_caught(const Plan& plan) const {
    const auto fault = check(truth_, plan);
    const std::string text =
        replay(program_.compiled().graph, program_.compiled().lifetimes, offsets_of(plan));
    EXPECT_EQ(!text.empty(), fault.has_value())
        << "replay: " << text << "; check: " << (fault ? fault->text : "");
    if (!fault || text.empty()) return fault.has_value();
    const int first = fault->first, second = fault->second < 0 ? first : fault->second;
    expect_names_the_fault(text, blocks_[static_cast<size_t>(first)],
                           blocks_[static_cast<size_t>(second)]);
    return true;
  }

  ZooStep step_;
  Compiled compiled_;
  const Program& program_;
  std::vector<int> blocks_;
  Problem truth_;
};

TEST_P(WrongLifetimes, AreCaughtWhereverAnotherValueOverwritesTheOneCutShort) {
  const Planner& planner = *find_planner("best_fit");
  ASSERT_FALSE(expect_caught(planner.solve(truth_))) << "the true lifetimes are at fault";
  const size_t every = stride(truth_.buffers.size());
  Outcome outcome;
  for (size_t i = 0; i < truth_.buffers.size() && !HasFailure(); i += every) {
    Problem wrong = truth_;
    --wrong.buffers[i].upper;
    ++outcome.shortened;
    outcome.overwritten += expect_caught(planner.solve(wrong));
  }
  EXPECT_GT(outcome.overwritten, 0);
  RecordProperty("shortened", outcome.shortened);
  RecordProperty("overwritten", outcome.overwritten);
}

// Block i is placed on block j while both are live.
TEST_P(WrongLifetimes, PlantedOverlapsAreFoundByCheckAndReplay) {
  const Plan good = find_planner("best_fit")->solve(truth_);
  const size_t every = stride(truth_.buffers.size());
  int planted = 0;
  for (size_t i = 0; i < truth_.buffers.size() && !HasFailure(); i += every) {
    const Interval& block = truth_.buffers[i];
    for (size_t j = 0; j < truth_.buffers.size(); ++j) {
      const Interval& other = truth_.buffers[j];
      if (j == i || other.lower >= block.upper || block.lower >= other.upper) continue;
      Plan bad = good;
      bad.offsets[i] = bad.offsets[j];
      bad.bytes = std::max(bad.bytes, bad.offsets[i] + block.size);
      EXPECT_TRUE(expect_caught(bad)) << i << " on " << j;
      ++planted;
      break;
    }
  }
  EXPECT_GT(planted, 0);
  RecordProperty("planted", planted);
}

INSTANTIATE_TEST_SUITE_P(Zoo, WrongLifetimes, testing::ValuesIn(model_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
