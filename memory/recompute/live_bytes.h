// Tables, a problem in flat arrays, and LiveBytes, the bytes that are live while steps run. Private
// to memory/recompute.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "tessera/memory/recompute/recompute.h"

namespace tessera::recomputing {

// Lists of numbers, end to end.
class Lists {
 public:
  // Adds a list without its duplicates.
  void add(const std::vector<int>& list) {
    for (int item : list) {
      const auto from = items_.begin() + ends_.back();
      if (std::find(from, items_.end(), item) == items_.end()) items_.push_back(item);
    }
    ends_.push_back(static_cast<int>(items_.size()));
  }
  std::span<const int> operator[](int i) const {
    return {items_.data() + ends_[i], items_.data() + ends_[i + 1]};
  }

 private:
  std::vector<int> items_;
  std::vector<int> ends_{0};
};

// A problem in flat arrays, for speed, with derived data. Values without bytes and external values
// are always available once they exist, so the lists omit them. A sequence can then be invalid in
// only one way: a step runs when it must not.
struct Tables {
  explicit Tables(const RecomputeProblem& problem);

  // Returns whether a value is in the lists.
  bool is_counted(int value) const { return producer[value] >= 0 && bytes[value] > 0; }
  // Returns the values that have bytes, the largest first.
  std::vector<int> largest_first(std::vector<int> list) const;

  const RecomputeProblem& problem;
  int steps, values;
  Lists reads, makes;             // per step
  Lists may_reuse;                // per value
  std::vector<int> results;       // results that are in the lists
  std::vector<int> producer;      // per value: its step; -1: external
  std::vector<int> last_read;     // per value: the last step that reads it; n: it is a result; its
                                  // producer if no step reads it
  std::vector<int> rerun_before;  // per step: it may be recomputed until this step runs first
  std::vector<int64_t> bytes;     // per value
  std::vector<int64_t> cost, scratch;  // per step
  std::vector<char> takes;             // per step: its outputs may reuse its inputs
  int64_t external = 0;                // bytes that are always live

 private:
  std::vector<int> counted(std::vector<int> list) const;
};

// Returns the bytes that the outputs of a step save by taking blocks of values for which `ends`
// holds: each the first that it may reuse and no other has taken, as in graph/lifetimes.cc.
template <class Ends>
int64_t taken_bytes(const Tables& tables, int step, std::vector<int>& taken, Ends ends) {
  int64_t sum = 0;
  taken.clear();
  for (int made : tables.makes[step]) {
    for (int candidate : tables.may_reuse[made]) {
      bool free = ends(candidate);
      for (int other : taken) free = free && other != candidate;
      if (!free) continue;
      taken.push_back(candidate);
      sum += tables.bytes[made];
      break;
    }
  }
  return sum;
}

// A copy of a value, which has bytes from run `made` to run `last`, both included.
struct Copy {
  int value;
  int made, last;
};

// Measures sequences as measure() does, reusable for many.
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
