// The recomputation strategies, the list of them, and plans made of their candidates.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/memory/by_name.h"
#include "tessera/memory/recompute/exact_search.h"
#include "tessera/memory/recompute/search.h"

namespace tessera {
namespace {

using namespace recomputing;

constexpr int kRungs = 64;

// Returns the runs to simulate: a few thousand times a small problem, a very large one less often.
int64_t effort_for(const Tables& tables, int64_t share) {
  constexpr double kMax = 30e6;  // about half a second
  const auto steps = static_cast<double>(tables.steps);
  return static_cast<int64_t>(
      std::min(kMax, static_cast<double>(share) * steps * std::sqrt(steps)));
}

// Returns the budget of a rung; kRungs equal distances lead from the highest to the lowest.
int64_t rung(int64_t highest, int64_t lowest, int index) {
  const int64_t range = highest - lowest;
  return highest - range / kRungs * index - range % kRungs * index / kRungs;
}

std::vector<char> recomputable_steps(const RecomputeProblem& problem, bool only_cheap) {
  std::vector<char> recomputable;
  for (const RecomputeStep& step : problem.steps)
    recomputable.push_back(step.recomputable && (step.cheap || !only_cheap));
  return recomputable;
}

// none runs every step once and keeps each value until its last read: the baseline of the others.
//
//   bytes |        ####
//         |     ##########
//         |  ################
//         +-------------------> runs
void fill_none(const Tables&, Frontier& frontier) { frontier.add(0, 0, {}); }

// Fills the frontier downwards from no recomputation: once in many small steps, and directly to
// each of some budgets, for which all bytes above the budget count from the beginning. Recomputes
// all steps that may be recomputed, or only cheap ones.
void go_down(const Tables& tables, bool only_cheap, Frontier& frontier) {
  const std::vector<char> recomputable = recomputable_steps(tables.problem, only_cheap);
  const int64_t effort = effort_for(tables, only_cheap ? 30 : 240);
  Search search(tables, recomputable, frontier);
  const Candidate top = search.start();
  const int64_t lowest = peak_bound(tables.problem).bytes;
  Candidate candidate = top;
  for (int i = 1; i <= kRungs; ++i)
    if (!search.descend(candidate, rung(top.peak, lowest, i), effort / 3)) break;
  for (int i = 2; i < kRungs; i += 2) {
    candidate = top;
    const int64_t share = (effort - search.simulated()) * 4 / (kRungs - i);
    search.descend(candidate, rung(top.peak, lowest, i), search.simulated() + share);
  }
}

// cheap recomputes only cheap steps: element-wise ones and norms, whose time is that of reading and
// writing their values once. Outputs of convolutions and matrix products are kept. The value that
// frees most bytes for its cost is evicted first, until no eviction helps.
//
//   forward   conv -> y -> norm -> z -> conv          y is kept, z is not
//   backward          y -> norm -> z -> conv's        z is recomputed right before it is read
void fill_cheap(const Tables& tables, Frontier& frontier) { go_down(tables, true, frontier); }

// segments is square-root checkpointing (Chen, Xu, Zhang and Guestrin 2016): the steps up to the
// one with the most live bytes are cut in segments of equal length. Values that are read after that
// step are kept only if they pass from one segment to the next; the others are recomputed, a
// segment at a time. All numbers of segments from 1 to 64 are tried.
//
//   forward    | x . . . | x . . . | x . . . |        x kept, . recomputed
//   backward                       | x . . . | x . . . | x . . . |
void cut_in_segments(const Tables& tables, Frontier& frontier) {
  Search search(tables, recomputable_steps(tables.problem, false), frontier);
  const EvictionPolicy natural = search.start().policy;
  LiveBytes live_bytes(tables);
  if (!live_bytes.enter(once_each(tables.problem))) return;
  const int turn = live_bytes.highest();
  // Per value: the last step up to `turn` that makes or reads it, the first reading step after it.
  std::vector<int> last(tables.values, -1), next(tables.values, tables.steps);
  for (int s = tables.steps - 1; s >= 0; --s) {
    for (int v : tables.makes[s])
      if (s <= turn && last[v] < 0) last[v] = s;
    for (int v : tables.reads[s]) {
      if (s > turn) next[v] = s;
      if (s <= turn && last[v] < 0) last[v] = s;
    }
  }
  for (int segments = 1; segments <= std::min(kRungs, turn); ++segments) {
    EvictionPolicy policy = natural;
    for (int v = 0; v < tables.values; ++v) {
      if (!search.may_evict(v) || last[v] < 0 || last[v] == turn) continue;
      const auto segment = [&](int s) { return int64_t{s} * segments / (turn + 1); };
      const bool crosses = segment(tables.producer[v]) != segment(last[v]);
      const bool can = next[v] < tables.steps && next[v] <= tables.rerun_before[tables.producer[v]];
      if (can && !crosses) policy.push_back({last[v], v});
    }
    std::sort(policy.begin(), policy.end());
    search.simulate(policy);
  }
}

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

// Looks for better candidates along the whole frontier.
void improve(const Tables& tables, Frontier& frontier) {
  const int64_t effort = effort_for(tables, 110);
  Search search(tables, recomputable_steps(tables.problem, false), frontier);
  const int64_t highest = search.start().peak;
  for (int round = 0; search.simulated() < effort; ++round) {
    const int64_t before = search.simulated();
    for (int i = kRungs; i >= 1 && search.simulated() < effort; --i) {
      const int64_t budget = rung(highest, frontier.candidates().front().peak, i);
      const Candidate* known = frontier.within(budget);
      if (known == nullptr || known->peak == highest) continue;
      Candidate candidate = *known;
      if (round == 0) search.keep(candidate, budget, effort);
      search.exchange(candidate, budget, 2, effort);
    }
    if (search.simulated() == before) return;
  }
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
void fill_best(const Tables& tables, Frontier& frontier) {
  go_down(tables, true, frontier);
  cut_in_segments(tables, frontier);
  go_down(tables, false, frontier);
  improve(tables, frontier);
}

// exact finds the cheapest sequence by visiting every state of a program (exact_search.cc): for
// problems of some 20 values. A larger search stops after a number of states and returns the plan
// of `greedy`, with a better bound. `exact` is the reference for the others.
//
//   state: (next step, live values)
//     (2, ab) -- c --> (3, abc) -- d, free a --> (4, bcd)      only the steps that have run and
//          \                                     /             the live values matter, not the
//           free b, c --> (3, ac) -- b, free a --              path to them

// A strategy that is a function: it fills a frontier, from which the candidates are taken. Problems
// of at most `most` states are also searched exactly, `states` of them. All budgets are searched or
// none, so that a larger budget never costs more.
class FunctionStrategy final : public RecomputeStrategy {
 public:
  using Fill = void (*)(const Tables& tables, Frontier& frontier);
  FunctionStrategy(std::string_view name, std::string_view explanation, Fill fill, double most = 0,
                   size_t states = 0)
      : name_(name), explanation_(explanation), fill_(fill), most_(most), states_(states) {}

  std::string_view name() const override { return name_; }
  std::string_view explanation() const override { return explanation_; }
  std::vector<StepSequence> candidates(const RecomputeProblem& problem) const override {
    const Tables tables(problem);
    Frontier frontier;
    fill_(tables, frontier);
    PolicySimulator replay(tables);
    std::vector<StepSequence> result;
    for (const Candidate& candidate : frontier.candidates())
      if (replay.simulate(candidate.policy)) result.push_back(replay.live_bytes().runs());
    return result;
  }
  std::vector<RecomputePlan> solve(const RecomputeProblem& problem,
                                   std::span<const int64_t> budgets) const override {
    std::vector<RecomputePlan> plans = RecomputeStrategy::solve(problem, budgets);
    if (states_ == 0 || max_states(Tables(problem)) > most_) return plans;
    for (size_t i = 0; i < plans.size(); ++i)
      if (plans[i].status != SolveStatus::kOptimal)
        prove_exactly(problem, budgets[i], states_, plans[i]);
    return plans;
  }

 private:
  const std::string_view name_, explanation_;
  const Fill fill_;
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
  static const FunctionStrategy built_in[] = {
      {"none", "every step runs once", fill_none},
      {"cheap", "only steps that are marked cheap are recomputed", fill_cheap},
      {"segments", "square-root checkpointing: only values that pass between segments are kept",
       cut_in_segments},
      {"greedy",
       "drops one value after the other, first the one that frees most bytes x time for its cost",
       fill_greedy},
      {"best", "the cheapest of these, improved by exchanging kept values (the default)", fill_best,
       1 << 19, 1 << 19},
      {"exact", "the cheapest path through all states of a small program", fill_greedy,
       std::numeric_limits<double>::max(), 1'000'000},
  };
  static std::vector<const RecomputeStrategy*> all = pointers_to<RecomputeStrategy>(built_in);
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
