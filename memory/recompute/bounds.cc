// Lower bounds of the peak and of the cost of all sequences.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/memory/recompute/live_bytes.h"

namespace tessera {
namespace {

using recomputing::Tables;

// For each first run: its own bytes, and those of other values that must be live.
class Stages {
 public:
  explicit Stages(const Tables& tables)
      : t_(tables), pinned_(tables.steps + 1, 0), own_(tables.steps, 0) {
    for (int v = 0; v < t_.values; ++v) add(pinned_, v, pinned_from(v), last_of(v));
    std::partial_sum(pinned_.begin(), pinned_.end(), pinned_.begin());
    for (int s = 0; s < t_.steps; ++s) look_at(s);
  }

  // Returns the bytes that step s reads, makes and uses as scratch, and of external values.
  int64_t own(int s) const { return own_[s]; }
  // Returns the bytes of other values that must be live: needed later, and not recomputable.
  int64_t pinned(int s) const { return pinned_[s]; }
  // Returns the first step at which a value that is needed later can no longer be recomputed.
  int pinned_from(int v) const {
    return t_.producer[v] < 0 ? t_.steps
                              : std::max(t_.producer[v] + 1, t_.rerun_before[t_.producer[v]]);
  }
  // Returns the last step whose first run reads the value; recomputation may read it later.
  int last_of(int v) const { return t_.last_read[v]; }

 private:
  void add(std::vector<int64_t>& sums, int v, int from, int to) const {
    if (from >= to) return;
    sums[from] += t_.bytes[v];
    sums[to] -= t_.bytes[v];
  }

  void look_at(int s) {
    int64_t sum = t_.external + t_.scratch[s];
    for (int v : t_.makes[s]) sum += t_.bytes[v];
    for (int v : t_.reads[s]) {
      sum += t_.bytes[v];
      if (pinned_from(v) <= s && s < last_of(v)) pinned_[s] -= t_.bytes[v];
    }
    std::vector<int> taken;
    const auto may_end = [&](int v) { return !(pinned_from(v) <= s && s < last_of(v)); };
    own_[s] = sum - recomputing::taken_bytes(t_, s, taken, may_end);
  }

  const Tables& t_;
  std::vector<int64_t> pinned_, own_;
};

// Values that are needed later and can be recomputed, by their producers.
class Crossing {
 public:
  Crossing(const Tables& tables, const Stages& stages)
      : t_(tables), stages_(stages), bytes_(tables.steps, 0), share_(tables.steps, 0) {
    begins_.resize(t_.steps + 1);
    ends_.resize(t_.steps + 1);
    for (int v = 0; v < t_.values; ++v) {
      const int from = t_.producer[v] + 1;
      const int to = std::min(stages_.last_of(v), stages_.pinned_from(v));
      if (!t_.is_counted(v) || from >= to) continue;
      begins_[from].push_back(v);
      ends_[to].push_back(v);
      share_[t_.producer[v]] += static_cast<double>(t_.bytes[v]);
    }
    for (int s = 0; s < t_.steps; ++s) {
      if (share_[s] == 0) continue;
      share_[s] = static_cast<double>(t_.cost[s]) / share_[s];  // cost per byte
      cheapest_first_.push_back(s);
    }
    std::stable_sort(cheapest_first_.begin(), cheapest_first_.end(),
                     [&](int a, int b) { return share_[a] < share_[b]; });
  }

  // Returns the minimum cost of keeping only `available` bytes of these values while step s runs.
  // Must be called in the order of steps.
  double cost_beside(int s, int64_t available) {
    for (int v : begins_[s]) change(v, t_.bytes[v]);
    for (int v : ends_[s]) change(v, -t_.bytes[v]);
    for (int v : t_.reads[s]) hide(s, v, -1);
    double cost = 0;
    int64_t excess = sum_ - available;
    for (size_t i = 0; excess > 0 && i < cheapest_first_.size(); ++i) {
      const int producer = cheapest_first_[i];
      const int64_t made = std::min(bytes_[producer], excess);
      cost += share_[producer] * static_cast<double>(made);
      excess -= made;
    }
    for (int v : t_.reads[s]) hide(s, v, 1);
    return cost;
  }

 private:
  void change(int v, int64_t bytes) {
    bytes_[t_.producer[v]] += bytes;
    sum_ += bytes;
  }
  void hide(int s, int v, int sign) {
    const int to = std::min(stages_.last_of(v), stages_.pinned_from(v));
    if (s < to) change(v, sign * t_.bytes[v]);
  }

  const Tables& t_;
  const Stages& stages_;
  std::vector<std::vector<int>> begins_, ends_;  // per step: values
  std::vector<int64_t> bytes_;                   // per producer: bytes that cross now
  std::vector<double> share_;
  std::vector<int> cheapest_first_;
  int64_t sum_ = 0;
};

}  // namespace

PeakBound peak_bound(const RecomputeProblem& problem) {
  const Tables tables(problem);
  const Stages stages(tables);
  PeakBound bound{tables.external, -1, {}};
  for (int s = 0; s < tables.steps; ++s) {
    const int64_t bytes = stages.own(s) + stages.pinned(s);
    if (bound.step >= 0 && bytes <= bound.bytes) continue;
    bound.bytes = bytes;
    bound.step = s;
  }
  const int s = bound.step;
  for (int v = 0; v < tables.values && s >= 0; ++v) {
    const auto reads = tables.reads[s];
    const bool needed = tables.producer[v] < 0 || tables.producer[v] == s ||
                        std::find(reads.begin(), reads.end(), v) != reads.end() ||
                        (stages.pinned_from(v) <= s && s < stages.last_of(v));
    if (needed) bound.live_values.push_back(v);
  }
  bound.live_values = tables.largest_first(std::move(bound.live_values));
  return bound;
}

int64_t cost_bound(const RecomputeProblem& problem, int64_t budget) {
  const Tables tables(problem);
  const Stages stages(tables);
  Crossing crossing(tables, stages);
  double extra = 0;
  for (int s = 0; s < tables.steps && budget >= 0; ++s) {
    const int64_t available = budget - stages.own(s) - stages.pinned(s);
    extra = std::max(extra, crossing.cost_beside(s, std::max<int64_t>(available, 0)));
  }
  constexpr double kRounding = 1e-9;  // above the rounding errors of the sums
  return base_cost(problem) + static_cast<int64_t>(std::ceil(extra * (1 - kRounding) - kRounding));
}

}  // namespace tessera
