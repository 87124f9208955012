// Ways down from no recomputation: one value after the other is forgotten, the one that saves most
// bytes for what it costs first, and what turns out not to be needed is kept after all. Private to
// memory/recompute.
#pragma once

#include "tessera/memory/recompute/frontier.h"

namespace tessera::recomputing {

// Whatever it looks at, the frontier sees. Effort is the number of runs that are played; `most` is
// compared with all that this search has played.
class Search {
 public:
  // May forget the values of steps for which `again` holds.
  Search(const Tables& tables, const std::vector<char>& recomputable, Frontier& frontier);

  bool may_evict(int value) const { return may_evict_[value] != 0; }
  int64_t simulated() const { return simulator_.simulated(); }

  // Nothing is forgotten before it is read for the last time.
  Candidate start();
  void look_at(const EvictionPolicy& policy);
  // Forgets more and more until the peak is at or under the budget; false where it finds no way.
  bool descend(Candidate& candidate, int64_t budget, int64_t most);
  // Keeps again what can be kept within the budget.
  void keep(Candidate& candidate, int64_t budget, int64_t most);
  // Keeps some of what costs most, descends again with other things, takes what is cheaper; so many
  // times.
  void exchange(Candidate& candidate, int64_t budget, int times, int64_t most);

 private:
  // A value that is not read between two steps: it could be forgotten after the first.
  struct Gap {
    Evict after;
    int to;        // the step with which it is read next
    double worth;  // bytes x runs above the budget for what it costs, estimated
  };
  // One that is forgotten after a step, `last` if that is repeated, and made again with another.
  struct Evicted {
    Evict after;
    int last, to;
  };
  bool simulate(const EvictionPolicy& policy, bool remember = true);
  bool simulate_change(const EvictionPolicy& policy, Evict after, bool is_there, int from);
  void find_gaps(int64_t budget);
  void add_gap(int value, int step, int64_t above);
  double cost_again(int value, int step, int depth) const;
  // What making it again reads and nobody else that late is kept until then: false where there is
  // none such.
  bool keep_what_it_reads(EvictionPolicy& policy, const Gap& gap) const;
  bool evict_best(Candidate& candidate, int64_t budget);
  double excess(int64_t budget) const;
  std::vector<Evicted> evicted(const Candidate& candidate) const;
  size_t random_below(size_t n);

  const Tables& tables_;
  Frontier& frontier_;
  PolicySimulator simulator_;
  std::vector<char> may_evict_, banned_;  // of each value
  std::vector<Gap> gaps_;
  std::vector<int> used_with_;  // of each value: the step with whose first run it was used last
  std::vector<int64_t> used_above_;  // and how many runs were above the budget up to then
  uint64_t random_ = 1;
};

}  // namespace tessera::recomputing
