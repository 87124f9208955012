// How many bytes are live while steps run: what measure() says, kept so that many sequences can be
// looked at. Private to memory/recompute.
#pragma once

#include "tessera/memory/recompute/tables.h"

namespace tessera::recomputing {

// A copy of a value and the runs between which it has bytes, both included.
struct Copy {
  int value;
  int made, last;
};

class LiveBytes {
 public:
  explicit LiveBytes(const Tables& tables) : tables_(tables) {}

  // The whole of a sequence; false where a step runs where it may not or never does, or the cost
  // does not fit 62 bits.
  bool enter(const StepSequence& runs);

  // The same run by run, of steps that may run there; once closed, the sums are there.
  void open();
  void enter_run(int step);
  void close();

  const StepSequence& runs() const { return entries_.runs; }
  int64_t cost() const { return entries_.cost; }
  // Of what was closed last:
  int64_t peak() const { return peak_; }
  int highest() const { return highest_; }
  const std::vector<int64_t>& live() const { return live_; }           // bytes of each run
  const std::vector<Copy>& copies() const { return entries_.copies; }  // in the order they are made

  // What a run makes may take blocks of the copies that it read.
  struct Reuse {
    int run;
    size_t first_read;
  };
  // All that was entered so far, to go on from there again.
  struct Entries {
    StepSequence runs;
    std::vector<Copy> copies;
    std::vector<int> latest;  // of each value: its latest copy
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
