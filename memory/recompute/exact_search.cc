// The exact search of `exact` and `best`: the shortest path through all states of a small problem.
//
// A state consists of the steps that have run first and the values that are live. From a state any
// step may run whose inputs are live, once enough is freed for it. Values that need not be freed
// yet stay, as they can still be freed later: a set of freed values grows only until enough is
// freed. Values that no step can need any more are dropped. States are taken in the order of the
// recomputation cost, so the first one that has run all steps and has the results is the cheapest
// (Dijkstra).
#include "tessera/memory/recompute/exact_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <queue>
#include <unordered_map>

namespace tessera::recomputing {
namespace {

using Mask = uint64_t;

struct ExactAnswer {
  bool complete = false;  // all states were visited, or the cheapest sequence was found
  bool found = false;
  StepSequence runs;
  int64_t extra = 0;  // cost of recomputation; a lower bound if not complete
};

struct State {
  Mask there;
  int first;  // the step whose first run is next
  bool operator==(const State&) const = default;
};

struct StateHash {
  size_t operator()(const State& s) const {
    Mask h = (s.there + static_cast<Mask>(s.first) * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
  }
};

struct Node {
  State state;
  int64_t cost;  // recomputation only
  int parent, step;
  bool done;
};

class ExactSearch {
 public:
  ExactSearch(const Tables& tables, int64_t budget, size_t most)
      : t_(tables), budget_(budget), most_(most), bit_(tables.values, -1) {
    for (int v = 0; v < t_.values; ++v) {
      if (!t_.is_counted(v)) continue;
      bit_[v] = static_cast<int>(value_.size());
      value_.push_back(v);
      if (t_.last_read[v] == t_.steps) results_ |= Mask{1} << bit_[v];
    }
    for (int s = 0; s < t_.steps; ++s) {
      reads_.push_back(mask(t_.reads[s]));
      makes_.push_back(mask(t_.makes[s]));
      may_end_.push_back(0);
      for (int v : t_.makes[s]) may_end_.back() |= mask(t_.may_reuse[v]);
    }
    for (int first = 0; first <= t_.steps; ++first) useful_.push_back(useful_from(first));
  }

  // Returns an upper bound of the number of states: before each first run, any subset of the values
  // made by then and still useful can be live.
  double max_states() const {
    double sum = 0;
    Mask made = 0;
    for (int first = 0; first <= t_.steps; ++first) {
      sum += std::ldexp(1.0, std::popcount(useful_[first] & made));
      if (first < t_.steps) made |= makes_[first];
    }
    return sum;
  }

  // Returns the cheapest sequence; stops at `most` states. Requires a finite number of states.
  ExactAnswer answer() {
    reach({0, 0}, 0, -1, -1);
    while (!open_.empty()) {
      const auto [cost, later, index] = open_.top();
      open_.pop();
      if (nodes_[index].done) continue;
      nodes_[index].done = true;
      const State state = nodes_[index].state;
      if (state.first == t_.steps && (results_ & ~state.there) == 0)
        return {true, true, way_to(index), cost};
      if (nodes_.size() > most_) return {false, false, {}, cost};
      expand(state, index);
    }
    return {true, false, {}, 0};
  }

 private:
  Mask mask(std::span<const int> values) const {
    Mask m = 0;
    for (int v : values) m |= Mask{1} << bit_[v];
    return m;
  }

  int64_t bytes(Mask m) const {
    int64_t sum = 0;
    for (; m != 0; m &= m - 1) sum += t_.bytes[value_[std::countr_zero(m)]];
    return sum;
  }

  // Returns the values that may still be needed if the next first run is this step or a later one.
  Mask useful_from(int first) const {
    Mask useful = results_;
    for (int s = first; s < t_.steps; ++s) useful |= reads_[s];
    for (Mask before = 0; before != useful;) {
      before = useful;
      for (int s = 0; s < first; ++s)
        if (t_.rerun_before[s] >= first && (makes_[s] & useful) != 0) useful |= reads_[s];
    }
    return useful;
  }

  void reach(State state, int64_t cost, int parent, int step) {
    state.there &= useful_[state.first];
    const auto [at, is_new] = index_of_.try_emplace(state, static_cast<int>(nodes_.size()));
    if (is_new) {
      nodes_.push_back({state, cost, parent, step, false});
    } else {
      Node& node = nodes_[at->second];
      if (node.cost <= cost) return;
      node.cost = cost;
      node.parent = parent;
      node.step = step;
    }
    open_.push({cost, t_.steps - state.first, at->second});
  }

  void expand(const State& state, int index) {
    if (state.first < t_.steps) run(state, state.first, index);
    for (int s = 0; s < state.first; ++s) {
      const bool wanted = (makes_[s] & ~state.there & useful_[state.first]) != 0;
      if (wanted && t_.rerun_before[s] >= state.first) run(state, s, index);
    }
  }

  // Runs a step; the fewer of its inputs are freed with it, the better.
  void run(const State& state, int step, int index) {
    if ((reads_[step] & ~state.there) != 0) return;
    const bool is_first = step == state.first;
    step_ = step;
    index_ = index;
    first_ = state.first + (is_first ? 1 : 0);
    cost_ = nodes_[index].cost + (is_first ? 0 : t_.cost[step]);
    const Mask dead = reads_[step] & ~useful_[first_];
    if (leave(state.there & ~makes_[step], dead)) return;
    const Mask choice = may_end_[step] & ~dead;
    for (Mask some = choice; some != 0; some = (some - 1) & choice)
      leave(state.there & ~makes_[step], dead | some);
  }

  // Adds the state after the step, without the values in `freed`; returns true if no other value
  // had to be freed.
  bool leave(Mask there, Mask freed) {
    const auto is_freed = [&](int v) { return (freed >> bit_[v] & 1) != 0; };
    const int64_t taken = taken_bytes(t_, step_, taken_, is_freed);
    const int64_t needed = t_.external + bytes(there) + bytes(makes_[step_]) + t_.scratch[step_];
    const int64_t excess = budget_ < 0 ? 0 : needed - taken - budget_;
    freed_ = freed;
    free_some(there, there & ~reads_[step_], excess);
    return excess <= 0;
  }

  // Frees every subset of `from` with at least `excess` bytes, without extending one that suffices.
  void free_some(Mask there, Mask from, int64_t excess) {
    if (excess <= 0) {
      const Mask freed_of_last = there & ~freed_;
      reach({freed_of_last | makes_[step_], first_}, cost_, index_, step_);
      return;
    }
    if (bytes(from) < excess || nodes_.size() > most_) return;
    const Mask lowest = from & (~from + 1);
    free_some(there & ~lowest, from & ~lowest, excess - bytes(lowest));
    free_some(there, from & ~lowest, excess);
  }

  StepSequence way_to(int index) const {
    StepSequence runs;
    for (; nodes_[index].parent >= 0; index = nodes_[index].parent)
      runs.push_back(nodes_[index].step);
    std::reverse(runs.begin(), runs.end());
    return runs;
  }

  struct Open {
    int64_t cost;
    int later, index;
    bool operator>(const Open& other) const {
      return std::pair(cost, later) > std::pair(other.cost, other.later);
    }
  };

  const Tables& t_;
  const int64_t budget_;
  const size_t most_;
  std::vector<int> bit_, value_;
  std::vector<Mask> reads_, makes_, may_end_, useful_;
  Mask results_ = 0;
  std::vector<Node> nodes_;
  std::unordered_map<State, int, StateHash> index_of_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  int step_ = 0, index_ = 0, first_ = 0;  // the run being tried
  int64_t cost_ = 0;
  Mask freed_ = 0;
  std::vector<int> taken_;
};

}  // namespace

double max_states(const Tables& tables) {
  constexpr int kMaxValues = 60;
  int counted = 0;
  for (int v = 0; v < tables.values; ++v) counted += tables.is_counted(v) ? 1 : 0;
  if (counted > kMaxValues) return std::numeric_limits<double>::infinity();
  return ExactSearch(tables, -1, 0).max_states();
}

void prove_exactly(const RecomputeProblem& problem, int64_t budget, size_t max_states,
                   RecomputePlan& plan) {
  const Tables tables(problem);
  const auto take = [&](const ExactAnswer& answer) {
    const RunsMeasure measured = *measure(problem, answer.runs);
    plan.runs = answer.runs;
    plan.peak = measured.peak;
    plan.cost = measured.cost;
    plan.extra = plan.cost - base_cost(problem);
    plan.live_values = measured.live_values;
  };
  const ExactAnswer answer = ExactSearch(tables, budget, max_states).answer();
  if (!answer.complete) {
    plan.bound = std::max(plan.bound, base_cost(problem) + answer.extra);
    return;
  }
  if (answer.found) {
    take(answer);
    plan.bound = plan.cost;
    plan.status = SolveStatus::kOptimal;
    plan.live_values.clear();
    return;
  }
  plan.status = SolveStatus::kInfeasible;
  plan.lowest = std::max(plan.lowest, budget + 1);
  while (plan.lowest < plan.peak) {
    const int64_t middle = plan.lowest + (plan.peak - plan.lowest) / 2;
    const ExactAnswer lower = ExactSearch(tables, middle, max_states / 8).answer();
    if (!lower.complete) return;
    if (lower.found)
      take(lower);
    else
      plan.lowest = middle + 1;
  }
}

}  // namespace tessera::recomputing
