// Eviction policies, their simulation, and the frontier of the best ones. Private to
// memory/recompute.
//
// A policy says after which first run which value is evicted. A value that is evicted and then read
// is recomputed right before, with all that this needs, and stays live until it is evicted again.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "tessera/memory/recompute/live_bytes.h"

namespace tessera::recomputing {

// Evicts `value` after the first run of `step`.
struct Evict {
  int step;
  int value;
  auto operator<=>(const Evict&) const = default;
};

using EvictionPolicy = std::vector<Evict>;  // ascending

struct Candidate {
  int64_t peak, cost;
  EvictionPolicy policy;
};

// The Pareto frontier of peak and cost over all candidates seen, the lowest peak first.
class Frontier {
 public:
  void add(int64_t peak, int64_t cost, const EvictionPolicy& policy);
  // Returns the cheapest candidate within the budget, or nullptr.
  const Candidate* within(int64_t budget) const;
  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  std::vector<Candidate> candidates_;
};

// Makes the sequences of policies.
class PolicySimulator {
 public:
  explicit PolicySimulator(const Tables& tables) : tables_(tables), live_bytes_(tables) {}

  // Makes the sequence of a policy; live_bytes() then describes it. Returns false if a value cannot
  // be recomputed, or if the sequence is too long to be of use.
  // `remember`: stores a snapshot every few steps, from which simulate_change() continues.
  bool simulate(const EvictionPolicy& policy, bool remember = false);
  // Simulates a policy that differs from the remembered one only in whether a value is live between
  // a first run and that of step `from`, which reads the value next. Simulates only the part that
  // differs.
  bool simulate_change(const EvictionPolicy& policy, Evict after, bool is_there, int from);

  const LiveBytes& live_bytes() const { return live_bytes_; }
  // The number of simulated runs, a measure of the time taken.
  int64_t simulated() const { return simulated_; }

 private:
  struct Snapshot {
    std::vector<char> there;
    LiveBytes::Entries entries;
  };
  bool simulate_from(const EvictionPolicy& policy, int step, bool remember);
  bool make_again(int value, int before);
  void run(int step);

  const Tables& tables_;
  LiveBytes live_bytes_;
  std::vector<char> there_;
  std::vector<int> wanted_;
  std::vector<Snapshot> snapshots_;
  int64_t simulated_ = 0;
};

}  // namespace tessera::recomputing
