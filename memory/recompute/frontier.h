// Sequences as policies, how they are played, and the best of those seen. Private to
// memory/recompute.
//
// A policy says after which first run which value is forgotten. What is forgotten and then read is
// made again right before, with what that takes, and is there from then on until it is forgotten
// again.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "tessera/memory/recompute/live_bytes.h"

namespace tessera::recomputing {

// After the first run of `step`, `value` is no longer there.
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

// Of all ways seen, those that none is as low and as cheap as; the lowest first.
class Frontier {
 public:
  void add(int64_t peak, int64_t cost, const EvictionPolicy& policy);
  // The cheapest within the budget, or nullptr.
  const Candidate* within(int64_t budget) const;
  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  std::vector<Candidate> candidates_;
};

// Makes the sequences of policies.
class PolicySimulator {
 public:
  explicit PolicySimulator(const Tables& tables) : tables_(tables), live_bytes_(tables) {}

  // The sequence of a policy is in the ledger then. False where something would have to be made
  // again that cannot be, or where it would be longer than any that is of use.
  bool simulate(const EvictionPolicy& policy);
  // Plays, and keeps what it comes by for vary().
  bool simulate_and_remember(const EvictionPolicy& policy);
  // A policy that differs from the remembered one in this only: whether a value is there between a
  // first run and that of step `from`, with which it is read next. Plays what is not the same.
  bool simulate_change(const EvictionPolicy& policy, Evict after, bool is_there, int from);

  const LiveBytes& live_bytes() const { return live_bytes_; }
  // So many runs were played, which is the time that it took.
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
