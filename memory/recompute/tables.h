// Tables: a problem in flat arrays, for speed, with derived data. Private to memory/recompute.
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

// Values without bytes and external values are always available once they exist, so the lists omit
// them. A sequence can then be invalid in only one way: a step runs when it must not.
struct Tables {
  explicit Tables(const RecomputeProblem& problem);

  // Returns whether a value is in the lists.
  bool is_counted(int value) const { return producer[value] >= 0 && bytes[value] > 0; }

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

}  // namespace tessera::recomputing
