// LiveBytes: the bytes that are live while steps run, as in measure(), reusable for many sequences.
// Private to memory/recompute.
#pragma once

#include "tessera/memory/recompute/tables.h"

namespace tessera::recomputing {

// A copy of a value, which has bytes from run `made` to run `last`, both included.
struct Copy {
  int value;
  int made, last;
};

class LiveBytes {
 public:
  explicit LiveBytes(const Tables& tables) : tables_(tables) {}

  // Enters a whole sequence. Returns false if a step never runs or runs when it may not, or if the
  // cost does not fit 62 bits.
  bool enter(const StepSequence& runs);

  // Enters a sequence run by run: open(), enter_run() for each, and close(), which computes the
  // sums. Requires steps that may run.
  void open();
  void enter_run(int step);
  void close();

  const StepSequence& runs() const { return entries_.runs; }
  int64_t cost() const { return entries_.cost; }
  // Results of the last close().
  int64_t peak() const { return peak_; }
  int highest() const { return highest_; }
  const std::vector<int64_t>& live() const { return live_; }           // bytes per run
  const std::vector<Copy>& copies() const { return entries_.copies; }  // in the order they are made

  // A run whose outputs may reuse blocks of the copies that it reads.
  struct Reuse {
    int run;
    size_t first_read;
  };
  // All entries so far, from which to continue.
  struct Entries {
    StepSequence runs;
    std::vector<Copy> copies;
    std::vector<int> latest;  // per value: its latest copy
    std::vector<Reuse> reuses;
    std::vector<int> read_copies;
    int64_t cost = 0;
  };
  const Entries& entries() const { return entries_; }
  void go_on_from(const Entries& entries) { entries_ = entries; }

 private:
  void add_up();
  void count_taken_blocks_once();

  const Tables& tables_;
  Entries entries_;
  std::vector<int64_t> live_;
  std::vector<int> taken_;
  int64_t peak_ = 0;
  int highest_ = -1;
};

}  // namespace tessera::recomputing
