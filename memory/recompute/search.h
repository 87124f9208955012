// Search: descends from no recomputation by evicting one value after the other, the one that saves
// most bytes for its cost first. Values whose eviction proves unnecessary are kept after all.
// Private to memory/recompute.
#pragma once

#include "tessera/memory/recompute/frontier.h"

namespace tessera::recomputing {

// Adds all that it simulates to the frontier. Effort is the number of simulated runs; `most` limits
// the total of this search.
class Search {
 public:
  // May evict the values of steps for which `recomputable` holds.
  Search(const Tables& tables, const std::vector<char>& recomputable, Frontier& frontier);

  bool may_evict(int value) const { return may_evict_[value] != 0; }
  int64_t simulated() const { return simulator_.simulated(); }

  // Returns the policy that evicts each value after its last read.
  Candidate start();
  bool simulate(const EvictionPolicy& policy, bool remember = true);
  // Evicts values until the peak is at or under the budget; returns false if that fails.
  bool descend(Candidate& candidate, int64_t budget, int64_t most);
  // Keeps evicted values after all, as far as the budget allows.
  void keep(Candidate& candidate, int64_t budget, int64_t most);
  // Keeps some of the values that cost most, descends again with others, and takes the result if it
  // is cheaper; `times` times.
  void exchange(Candidate& candidate, int64_t budget, int times, int64_t most);

 private:
  // A value and two steps between which it is not read: it could be evicted after the first.
  struct Gap {
    Evict after;
    int to;        // the step that reads the value next
    double worth;  // estimate: bytes x runs above the budget / cost
  };
  // A value that is evicted after a step (last after `last`) and recomputed with step `to`.
  struct Evicted {
    Evict after;
    int last, to;
  };
  bool simulate_change(const EvictionPolicy& policy, Evict after, bool is_there, int from);
  void find_gaps(int64_t budget);
  void add_gap(int value, int step, int64_t above);
  double cost_again(int value, int step, int depth) const;
  // Keeps inputs that only this recomputation reads so late; returns false if there are none.
  bool keep_what_it_reads(EvictionPolicy& policy, const Gap& gap) const;
  bool evict_best(Candidate& candidate, int64_t budget);
  double excess(int64_t budget) const;
  std::vector<Evicted> evicted(const Candidate& candidate) const;
  size_t random_below(size_t n);

  const Tables& tables_;
  Frontier& frontier_;
  PolicySimulator simulator_;
  std::vector<char> may_evict_, banned_;  // per value
  std::vector<Gap> gaps_;
  std::vector<int> used_with_;       // per value: the step with whose first run it was used last
  std::vector<int64_t> used_above_;  // and the number of runs above the budget up to then
  uint64_t random_ = 1;
};

}  // namespace tessera::recomputing
