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

#include "tessera/memory/recompute/ledger.h"

namespace tessera::recomputing {

// After the first run of `step`, `value` is no longer there.
struct Forget {
  int step;
  int value;
  auto operator<=>(const Forget&) const = default;
};

using Policy = std::vector<Forget>;  // ascending

struct Way {
  int64_t peak, cost;
  Policy policy;
};

// Of all ways seen, those that none is as low and as cheap as; the lowest first.
class Frontier {
 public:
  void add(int64_t peak, int64_t cost, const Policy& policy);
  // The cheapest within the budget, or nullptr.
  const Way* within(int64_t budget) const;
  const std::vector<Way>& ways() const { return ways_; }

 private:
  std::vector<Way> ways_;
};

// Makes the sequences of policies.
class Replay {
 public:
  explicit Replay(const Tables& tables) : tables_(tables), ledger_(tables) {}

  // The sequence of a policy is in the ledger then. False where something would have to be made
  // again that cannot be, or where it would be longer than any that is of use.
  bool play(const Policy& policy);
  // Plays, and keeps what it comes by for vary().
  bool play_and_remember(const Policy& policy);
  // A policy that differs from the remembered one in this only: whether a value is there between a
  // first run and that of step `from`, with which it is read next. Plays what is not the same.
  bool vary(const Policy& policy, Forget after, bool is_there, int from);

  const Ledger& ledger() const { return ledger_; }
  // So many runs were played, which is the time that it took.
  int64_t played() const { return played_; }

 private:
  struct Milestone {
    std::vector<char> there;
    Ledger::Entries entries;
  };
  bool play_on(const Policy& policy, int step, bool remember);
  bool make_again(int value, int before);
  void run(int step);

  const Tables& tables_;
  Ledger ledger_;
  std::vector<char> there_;
  std::vector<int> wanted_;
  std::vector<Milestone> milestones_;
  int64_t played_ = 0;
};

}  // namespace tessera::recomputing
