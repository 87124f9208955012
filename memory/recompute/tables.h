// A problem laid out for speed: lists end to end, and what follows from them. Private to
// memory/recompute.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "tessera/memory/recompute/recompute.h"

namespace tessera::recomputing {

// Lists of numbers, end to end.
class Lists {
 public:
  // Adds a list, without what stands in it before.
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

// What has no bytes, or is from outside, is always there once it is made and is left out of the
// lists: so all that can go wrong in a sequence is that a step runs where it may not.
struct Tables {
  explicit Tables(const RecomputeProblem& problem);

  // Whether a value is in the lists.
  bool is_counted(int value) const { return producer[value] >= 0 && bytes[value] > 0; }

  const RecomputeProblem& problem;
  int steps, values;
  Lists reads, makes;             // of each step
  Lists may_reuse;                // of each value
  std::vector<int> results;       // those in the lists
  std::vector<int> producer;      // of each value: its step; -1: from outside
  std::vector<int> last_read;     // of each value: the last step that reads it, n: it is a result,
                                  // its maker where nobody does
  std::vector<int> rerun_before;  // of each step: it may run again before this one runs first
  std::vector<int64_t> bytes;     // of each value
  std::vector<int64_t> cost, scratch;  // of each step
  std::vector<char> takes;             // of each step: what it makes may take what it reads
  int64_t external = 0;                // bytes that are always there

 private:
  std::vector<int> counted(std::vector<int> list) const;
};

// The bytes that the values a step makes do not need, as they take blocks of values for which
// `dies` holds: each the first it may and no other has taken, as graph/lifetimes.cc does.
template <class Dies>
int64_t taken_bytes(const Tables& tables, int step, std::vector<int>& taken, Dies dies) {
  int64_t sum = 0;
  taken.clear();
  for (int made : tables.makes[step]) {
    for (int candidate : tables.may_reuse[made]) {
      bool free = dies(candidate);
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
