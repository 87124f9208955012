// Activation checkpointing (rematerialization): given the steps of a program and a budget in bytes,
// finds the order in which they run, some of them more than once.
//
//   bytes   a a a a a a a a             bytes   a a a a a a a a
//             b b b b b b                         b b     b b      b is freed after its first user
//               c c c c        with a               c c c          and recomputed, from a, before
//                 d            budget:                d            the next one
//           f g h i j k l                       f g h i g j k l
//
// Integers only, no tensors. Costs are in any unit that can be added (nanoseconds), sizes in bytes.
//
// The meaning of a sequence: a run reads the latest copy of each value and makes new copies of all
// outputs of its step. A copy is freed after the last run that reads it before the value is
// recomputed (or the end). Copies of results stay; a copy that no run reads is live during the run
// that makes it. During a run these have bytes: the copies that it reads and makes, its scratch,
// all copies that are read later, and external values. If `may_reuse` allows it, a new copy takes
// the block of one that is read for the last time; the two count once.
//
// graph/lifetimes.h defines the same for a program, so that bytes that are live here are live
// there. Views are not values: a step that reads a view reads the value of which it is a part.
//
// Nothing here throws. Const methods may be called by several threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

// A value that no step makes is external: live from the beginning to the end.
struct RecomputeValue {
  int64_t bytes = 0;             // 0: none, or stored elsewhere (parameters, slots)
  bool result = false;           // live at the end
  std::vector<int> may_reuse{};  // inputs of its step whose block it may take, by preference
  std::string id{};              // for files, faults and tables only
  bool operator==(const RecomputeValue&) const = default;
};

struct RecomputeStep {
  int64_t cost = 0;
  int64_t scratch = 0;  // bytes during a run
  std::vector<int> reads{}, makes{};
  // Values that the step overwrites, as an update of a parameter does: no later run may read them.
  // Such a step is never recomputed.
  std::vector<int> overwrites{};
  bool recomputable = true;  // may run more than once, with the same bits
  bool cheap = false;  // element-wise, a norm, a copy: the strategy `cheap` recomputes only these
  std::string id{};
  bool operator==(const RecomputeStep&) const = default;
};

struct RecomputeProblem {
  std::vector<RecomputeValue> values;
  std::vector<RecomputeStep> steps;  // in the order of their first runs
  int64_t budget = -1;               // maximum live bytes; -1: no limit
  bool operator==(const RecomputeProblem&) const = default;
};

// Steps in the order they run. Each runs at least once; first runs are in the problem's order.
using StepSequence = std::vector<int>;

struct RecomputeFault {
  int step = -1, value = -1;  // location; -1: not in one
  std::string text;           // names both
};

// Returns the fault of a problem (an unknown value, one with two producers or read before it is
// made or after it was overwritten, a negative size or cost, sums beyond 62 bits ...); nullopt if
// the problem is valid.
std::optional<RecomputeFault> malformed(const RecomputeProblem& problem);

struct RunsMeasure {
  int64_t peak = 0;              // maximum live bytes
  int64_t cost = 0;              // sum over all runs
  int highest = -1;              // the first run with `peak` live bytes; -1: there are no steps
  std::vector<int> live_values;  // values live in that run, the largest first
  std::vector<int64_t> live;     // bytes per run
};

// Measures a sequence; nullopt if it is invalid: a run reads a value that is not live, a step runs
// again that must not, first runs are missing or out of order. O(runs and what they read).
std::optional<RunsMeasure> measure(const RecomputeProblem& problem, const StepSequence& runs);

// Returns every step once, in order: the sequence without recomputation.
StepSequence once_each(const RecomputeProblem& problem);
// Returns the cost of once_each().
int64_t base_cost(const RecomputeProblem& problem);

// A lower bound of the peak of all sequences: the largest need of a step while it runs (values that
// it reads and makes, its scratch, and values that are needed later and cannot be recomputed).
struct PeakBound {
  int64_t bytes = 0;
  int step = -1;                 // the step with that need; -1: there are no steps
  std::vector<int> live_values;  // values live during the step, the largest first
};
PeakBound peak_bound(const RecomputeProblem& problem);
// Returns a lower bound of the cost of all sequences within the budget. During the first run of
// step t, values that are needed later and do not fit must be recomputed: the cheapest choice,
// fractions of steps allowed (a fractional knapsack), the maximum over all t. Inputs of
// recomputation count as live. O(n (n + v log v)).
int64_t cost_bound(const RecomputeProblem& problem, int64_t budget);

// A sequence with its measure, status and bounds.
struct RecomputePlan {
  StepSequence runs;   // the cheapest known within the budget, or else the one of lowest peak
  int64_t peak = 0;    // any budget of at least this is met
  int64_t cost = 0;    // sum over all runs
  int64_t extra = 0;   // cost above base_cost()
  int64_t bound = 0;   // no sequence within the budget costs less
  int64_t lowest = 0;  // no sequence has a lower peak
  SolveStatus status =
      SolveStatus::kUnknown;       // kOptimal: none within the budget is cheaper; kFeasible: it
                                   // fits; kInfeasible: none fits; kUnknown: none is known to fit
  std::vector<int> live_values{};  // if it does not fit: values live at the peak
  // Returns cost / bound - 1: 0.01 means that the cost is within 1 % of the bound.
  double gap() const;
};

// Checks a plan. Returns nullopt if every step runs, first in the problem's order and again only if
// it may; no run reads a value that is missing or overwritten; peak, cost and extra are as stated;
// no bound is violated; and the budget is kept if the status says so. Else returns the first fault,
// naming run, step and value. Shares no code with any strategy or with measure(). Requires a
// problem that is not malformed(). O(runs and what they read).
std::optional<std::string> check_recompute(const RecomputeProblem& problem,
                                           const RecomputePlan& plan);

// An algorithm that chooses what is recomputed. To add one, derive from it in a file of your own.
class RecomputeStrategy {
 public:
  virtual ~RecomputeStrategy() = default;

  // Returns the name in configurations: "greedy".
  virtual std::string_view name() const = 0;
  // Returns one sentence for lists and help texts.
  virtual std::string_view explanation() const = 0;
  // Returns sequences for budgets large and small, the same on every run, without reading
  // problem.budget. The cheapest that fits is used, so a larger budget never costs more.
  // once_each() need not be among them. Requires a problem that is not malformed().
  virtual std::vector<StepSequence> candidates(const RecomputeProblem& problem) const = 0;
  // Returns a plan for each budget (below 0: no limit). The default measures candidates(), drops
  // those that cannot run, and compares the cheapest that fits with the bounds.
  virtual std::vector<RecomputePlan> solve(const RecomputeProblem& problem,
                                           std::span<const int64_t> budgets) const;
  // Returns a plan for problem.budget.
  RecomputePlan solve(const RecomputeProblem& problem) const;
};

// Returns all built-in strategies, from the simplest to the default, then the added ones.
const std::vector<const RecomputeStrategy*>& recompute_strategies();
// Adds a strategy, which must outlive all lookups. Returns false, and adds nothing, if the name is
// already registered. Not thread-safe: call it before anything is planned.
bool add_recompute_strategy(const RecomputeStrategy& strategy);
// Returns the strategy of that name, or nullptr; "best" is the default.
const RecomputeStrategy* find_recompute_strategy(std::string_view name);
// Returns "none, cheap, ...", for error messages.
std::string recompute_strategy_names();

}  // namespace tessera
