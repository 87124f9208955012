// Computing again instead of keeping: the steps of a program and a budget in bytes are given, the
// order in which they run, some of them more than once, is wanted.
//
//   bytes   a a a a a a a a             bytes   a a a a a a a a
//             b b b b b b                         b b     b b      b was freed after its reader
//               c c c c        with a               c c c          and is made again, from a,
//                 d            budget:                d            before its next one
//           f g h i j k l                       f g h i g j k l
//
// Integers only, no tensors. Costs are in any unit that can be added (nanoseconds), sizes in bytes.
//
// What a sequence of runs means. A run reads the copy that was made last of each value and makes
// new copies of all that its step makes. A copy is freed after the last run that reads it before
// the value is made again (or the end), that of a result stays; one that nobody reads is there for
// the run that makes it. While a run is on, the copies it reads and makes, its scratch, all copies
// that are read later and what is from outside have their bytes. Where `may_take` says so, a new
// copy takes the block of one that is read there for the last time; the two count once.
//
// This is what graph/lifetimes.h makes of a program, so that bytes that are live here are bytes
// that are live there. Views are not values: who reads one reads what it is a part of.
//
// Nothing here throws; a RecomputeStrategy is const and may be used by several threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

// A value that no step makes is from outside: there from the beginning to the end.
struct RecomputeValue {
  int64_t bytes = 0;             // 0: they are elsewhere (parameters, slots), or there are none
  bool result = false;           // must be there at the end
  std::vector<int> may_reuse{};  // values its step reads whose block it may take, the first first
  std::string id{};              // for files, faults and tables only
  bool operator==(const RecomputeValue&) const = default;
};

struct RecomputeStep {
  int64_t cost = 0;
  int64_t scratch = 0;  // bytes, while it runs
  std::vector<int> reads{}, makes{};
  // Values whose bytes it overwrites, as an update of a parameter does: no run may read them after
  // it. Such a step never runs again.
  std::vector<int> overwrites{};
  bool recomputable = true;  // it may run more than once, with the same bits
  bool cheap = false;  // element-wise, a norm, a copy: the strategy `cheap` runs only these again
  std::string id{};
  bool operator==(const RecomputeStep&) const = default;
};

struct RecomputeProblem {
  std::vector<RecomputeValue> values;
  std::vector<RecomputeStep> steps;  // in the order in which they run first
  int64_t budget = -1;               // bytes that may be live at one time; -1: no limit
  bool operator==(const RecomputeProblem&) const = default;
};

// Steps in the order they run. Each runs at least once, the first runs stand in the problem's
// order.
using StepSequence = std::vector<int>;

struct RecomputeFault {
  int step = -1, value = -1;  // where it was found; -1: not in one
  std::string text;           // names both
};

// What is wrong with a problem (an unknown value, one with two makers or read before it is made or
// after it was overwritten, a negative size or cost, sums beyond 62 bits ...); nothing when
// strategies may be given it.
std::optional<RecomputeFault> malformed(const RecomputeProblem& problem);

struct RunsMeasure {
  int64_t peak = 0;  // the most bytes that are live at one time
  int64_t cost = 0;  // of all runs
  int highest = -1;  // the first run at which `peak` bytes are live; -1: there are no steps
  std::vector<int> live_values;  // values that have bytes then, the largest first
  std::vector<int64_t> live;     // bytes, of each run
};

// Nothing where this is no sequence: a run reads what is not there, a step runs again that may not,
// first runs are missing or out of order. O(number of runs and what they read).
std::optional<RunsMeasure> measure(const RecomputeProblem& problem, const StepSequence& runs);

// Every step once, in order: what it is without recomputation.
StepSequence once_each(const RecomputeProblem& problem);
// The cost of it.
int64_t base_cost(const RecomputeProblem& problem);

// Bytes below which no sequence peaks: the largest of what a step needs while it runs (what it
// reads, makes and uses as scratch, with what is then needed later and cannot be made again).
struct PeakBound {
  int64_t bytes = 0;
  int step = -1;                 // which needs so much; -1: there are no steps
  std::vector<int> live_values;  // values that are there then, the largest first
};
PeakBound peak_bound(const RecomputeProblem& problem);
// What every sequence within the budget costs at least. While step t runs first, what is needed
// later and does not fit beside it must be made again: the cheapest way to make that room, parts of
// steps allowed (a fractional knapsack), the largest over all t. What recomputing reads counts as
// there. O(n (n + v log v)).
int64_t cost_bound(const RecomputeProblem& problem, int64_t budget);

// A sequence and what is known of it.
struct RecomputePlan {
  StepSequence runs;   // the cheapest known within the budget; where none is, that of lowest peak
  int64_t peak = 0;    // so a budget that could not be met is met when `peak` is asked for
  int64_t cost = 0;    // of all runs
  int64_t extra = 0;   // cost above base_cost()
  int64_t bound = 0;   // no sequence within the budget costs less
  int64_t lowest = 0;  // no sequence has a lower peak
  SolveStatus status =
      SolveStatus::kUnknown;       // kOptimal: none within the budget is cheaper; kFeasible: it
                                   // fits; kInfeasible: none can; kUnknown: none is known
  std::vector<int> live_values{};  // where it does not fit: values that are there at the peak
  // By which part of the bound the cost is above it: 0.01 means within 1 %.
  double gap() const;
};

// Nothing when every step runs, first in the problem's order and again only where it may; when no
// run reads what is not there or was overwritten; when peak, cost and extra are what they are said
// to be, no bound is passed, and the budget is kept if the verdict says so. Else the first fault,
// naming run, step and value. Shares no code with any strategy, nor with measure(). The problem
// must not be malformed(). O(runs and what they read).
std::optional<std::string> check_recompute(const RecomputeProblem& problem,
                                           const RecomputePlan& plan);

// One way to choose what is computed again. Derive from it in a file of your own to add one.
class RecomputeStrategy {
 public:
  virtual ~RecomputeStrategy() = default;

  // As chosen in a configuration: "greedy".
  virtual std::string_view name() const = 0;
  // One sentence for lists and help texts.
  virtual std::string_view explanation() const = 0;
  // Sequences for a problem that is not malformed(), the same on every run, for budgets large and
  // small: problem.budget is not to be looked at. The cheapest that fits is taken, so a larger
  // budget never costs more. That of once_each() need not be among them.
  virtual std::vector<StepSequence> candidates(const RecomputeProblem& problem) const = 0;
  // A plan for each budget (below 0: no limit). Unless a strategy can prove more, this measures
  // ways(), leaves out what cannot run, and holds the cheapest that fits against the bounds.
  virtual std::vector<RecomputePlan> solve(const RecomputeProblem& problem,
                                           std::span<const int64_t> budgets) const;
  // For problem.budget.
  RecomputePlan solve(const RecomputeProblem& problem) const;
};

// All built-in strategies, from the simplest to the default, then those that were added.
const std::vector<const RecomputeStrategy*>& recompute_strategies();
// Adds one that is not built in; it must live as long as it may be found. False, and not added,
// where the name is taken. Not thread-safe: call it before anything is planned.
bool add_recompute_strategy(const RecomputeStrategy& strategy);
// The strategy of that name, or nullptr; "best" is the default.
const RecomputeStrategy* find_recompute_strategy(std::string_view name);
// "none, cheap, ...", for error messages.
std::string recompute_strategy_names();

}  // namespace tessera
