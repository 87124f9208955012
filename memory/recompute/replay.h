// The sequences of policies. Private to memory/recompute.
#pragma once

#include "tessera/memory/recompute/frontier.h"
#include "tessera/memory/recompute/ledger.h"

namespace tessera::recomputing {

class Replay {
 public:
  explicit Replay(const Tables& tables) : tables_(tables), ledger_(tables) {}

  // The sequence of a policy is in the ledger then. False where something would have to be made
  // again that cannot be, or where it would be longer than any that is of use.
  bool play(const Policy& policy);
  // The same, and keeps what it comes by for vary().
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
