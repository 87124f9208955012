// The recomputation strategies, the list of them, and plans made of their candidates.
#include <algorithm>
#include <limits>

#include "tessera/memory/by_name.h"
#include "tessera/memory/recompute/explore.h"
#include "tessera/memory/recompute/live_bytes.h"

namespace tessera {
namespace {

using namespace recomputing;

// none runs every step once and keeps each value until its last read: the baseline of the others.
//
//   bytes |        ####
//         |     ##########
//         |  ################
//         +-------------------> runs
class OnceEach final : public RecomputeStrategy {
 public:
  std::string_view name() const override { return "none"; }
  std::string_view explanation() const override { return "every step runs once"; }
  std::vector<StepSequence> candidates(const RecomputeProblem& problem) const override {
    return {once_each(problem)};
  }
};

// A strategy that fills a frontier and returns its candidates.
class Exploring : public RecomputeStrategy {
 public:
  using Fill = void (*)(const Tables& tables, Frontier& frontier);
  Exploring(std::string_view name, std::string_view explanation, Fill fill)
      : name_(name), explanation_(explanation), fill_(fill) {}

  std::string_view name() const final { return name_; }
  std::string_view explanation() const final { return explanation_; }
  std::vector<StepSequence> candidates(const RecomputeProblem& problem) const final {
    const Tables tables(problem);
    Frontier frontier;
    fill_(tables, frontier);
    return candidates_of(tables, frontier);
  }

 private:
  const std::string_view name_, explanation_;
  const Fill fill_;
};

// cheap recomputes only cheap steps: element-wise ones and norms, whose time is that of reading and
// writing their values once. Outputs of convolutions and matrix products are kept. The value that
// frees most bytes for its cost is evicted first, until no eviction helps.
//
//   forward   conv -> y -> norm -> z -> conv          y is kept, z is not
//   backward          y -> norm -> z -> conv's        z is recomputed right before it is read
void fill_cheap(const Tables& tables, Frontier& frontier) { go_down(tables, true, frontier); }

// greedy descends from no recomputation step by step. Among all values that wait for a later user
// while too many bytes are live, it evicts the one that frees most bytes x runs for its
// recomputation cost. A recomputed value may be evicted again after its user.
//
//   bytes | ##        each block to the right costs more for what it frees
//         | ####
//         | ########
//         | ##################
//         +--------------------> cost
void fill_greedy(const Tables& tables, Frontier& frontier) { go_down(tables, false, frontier); }

void fill_best(const Tables& tables, Frontier& frontier) {
  go_down(tables, true, frontier);
  cut_in_segments(tables, frontier);
  go_down(tables, false, frontier);
  improve(tables, frontier);
}

// Replaces plans that are not proved optimal by an exact search of at most `states` states.
void prove_all(const RecomputeProblem& problem, std::span<const int64_t> budgets, size_t states,
               std::vector<RecomputePlan>& plans) {
  for (size_t i = 0; i < plans.size(); ++i)
    if (plans[i].status != SolveStatus::kOptimal)
      prove_exactly(problem, budgets[i], states, plans[i]);
}

// best is the default: the candidates of `cheap`, `segments` and `greedy`, then a search along
// their frontier that keeps some of what costs most and evicts other values instead. If a problem
// is so small that all its states can be visited, the plan is the cheapest of all
// (exact_search.cc). The candidates of the others are among its own, so none of them is ever
// cheaper.
//
//   cost | *                 * cheap, segments, greedy
//        | .*                . found by exchanging
//        |  .  *
//        |    .   *
//        |       . .  *
//        +---------------> budget
//
// exact finds the cheapest sequence by visiting every state of a program (exact_search.cc): for
// problems of some 20 values. A larger search stops after a number of states and returns the plan
// of `greedy`, with a better bound. `exact` is the reference for the others.
//
//   state: (next step, live values)
//     (2, ab) -- c --> (3, abc) -- d, free a --> (4, bcd)      only the steps that have run and
//          \                                     /             the live values matter, not the
//           free b, c --> (3, ac) -- b, free a --              path to them
class Proving final : public Exploring {
 public:
  // Searches problems of at most `most` states, and at most `states` of them. All budgets are
  // searched or none, so that a larger budget never costs more.
  Proving(std::string_view name, std::string_view explanation, Fill fill, double most,
          size_t states)
      : Exploring(name, explanation, fill), most_(most), states_(states) {}

  std::vector<RecomputePlan> solve(const RecomputeProblem& problem,
                                   std::span<const int64_t> budgets) const override {
    std::vector<RecomputePlan> plans = RecomputeStrategy::solve(problem, budgets);
    if (max_states(Tables(problem)) <= most_) prove_all(problem, budgets, states_, plans);
    return plans;
  }

 private:
  const double most_;
  const size_t states_;
};

struct Measured {
  const StepSequence* runs;
  int64_t peak, cost;
};

// Returns the candidates that can run, the cheapest first; of equal cost the lowest first.
std::vector<Measured> measured(const RecomputeProblem& problem,
                               const std::vector<StepSequence>& candidates) {
  const Tables tables(problem);
  LiveBytes live_bytes(tables);
  std::vector<Measured> result;
  for (const StepSequence& runs : candidates)
    if (live_bytes.enter(runs)) result.push_back({&runs, live_bytes.peak(), live_bytes.cost()});
  std::stable_sort(result.begin(), result.end(), [](const Measured& a, const Measured& b) {
    return std::pair(a.cost, a.peak) < std::pair(b.cost, b.peak);
  });
  return result;
}

std::vector<const RecomputeStrategy*>& all_strategies() {
  static const OnceEach none;
  static const Exploring cheap("cheap", "only steps that are marked cheap are recomputed",
                               fill_cheap);
  static const Exploring segments(
      "segments", "square-root checkpointing: only values that pass between segments are kept",
      cut_in_segments);
  static const Exploring greedy(
      "greedy",
      "drops one value after the other, first the one that frees most bytes x time for its cost",
      fill_greedy);
  static const Proving best(
      "best", "the cheapest of these, improved by exchanging kept values (the default)", fill_best,
      1 << 19, 1 << 19);
  static const Proving exact("exact", "the cheapest path through all states of a small program",
                             fill_greedy, std::numeric_limits<double>::max(), 1'000'000);
  static std::vector<const RecomputeStrategy*> all = {&none,   &cheap, &segments,
                                                      &greedy, &best,  &exact};
  return all;
}

}  // namespace

double RecomputePlan::gap() const {
  if (cost <= bound) return 0;
  return static_cast<double>(cost - bound) / static_cast<double>(std::max<int64_t>(bound, 1));
}

std::vector<RecomputePlan> RecomputeStrategy::solve(const RecomputeProblem& problem,
                                                    std::span<const int64_t> budgets) const {
  std::vector<StepSequence> known = candidates(problem);
  known.push_back(once_each(problem));
  const std::vector<Measured> by_cost = measured(problem, known);
  const auto lowest =
      std::min_element(by_cost.begin(), by_cost.end(),
                       [](const Measured& a, const Measured& b) { return a.peak < b.peak; });
  const int64_t base = base_cost(problem), lowest_peak = peak_bound(problem).bytes;
  std::vector<RecomputePlan> plans;
  for (int64_t budget : budgets) {
    const auto fits = [&](const Measured& candidate) {
      return budget < 0 || candidate.peak <= budget;
    };
    const auto found = std::find_if(by_cost.begin(), by_cost.end(), fits);
    const Measured& candidate = found == by_cost.end() ? *lowest : *found;
    RecomputePlan plan{*candidate.runs, candidate.peak, candidate.cost, candidate.cost - base, 0,
                       lowest_peak};
    plan.bound = cost_bound(problem, budget);
    if (found != by_cost.end()) {
      plan.status = plan.cost <= plan.bound ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    } else {
      plan.status = budget < lowest_peak ? SolveStatus::kInfeasible : SolveStatus::kUnknown;
      plan.live_values = measure(problem, plan.runs)->live_values;
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

RecomputePlan RecomputeStrategy::solve(const RecomputeProblem& problem) const {
  return solve(problem, {&problem.budget, 1}).front();
}

const std::vector<const RecomputeStrategy*>& recompute_strategies() { return all_strategies(); }

bool add_recompute_strategy(const RecomputeStrategy& strategy) {
  return add_by_name(all_strategies(), strategy);
}

const RecomputeStrategy* find_recompute_strategy(std::string_view name) {
  return find_by_name(all_strategies(), name);
}

std::string recompute_strategy_names() { return names_in_order(all_strategies()); }

}  // namespace tessera
