// Problems for the tests of planning: random, but the same on every run.
#pragma once

#include <cstdint>
#include <random>

#include "tessera/memory/plan.h"

namespace tessera::testing {

struct Features {
  bool alignments = false;
  bool gaps = false;
  bool fixed = false;  // fixed buffers never clash: each has an address range of its own
  bool empty = false;  // some sizes and lifetimes are empty
  bool hints = false;
};

inline Problem random_problem(uint32_t seed, int count, int64_t times, int64_t largest,
                              const Features& features = {}) {
  std::mt19937 numbers(seed);  // unlike distributions, its output is the same everywhere
  const auto below = [&](int64_t n) { return static_cast<int64_t>(numbers() % n); };
  Problem problem;
  int64_t next_fixed = 0;
  for (int i = 0; i < count; ++i) {
    Interval buffer;
    buffer.id = std::to_string(i);
    buffer.lower = below(times);
    buffer.upper = buffer.lower + 1 + below(below(4) == 0 ? times : 1 + times / 8);
    buffer.size = 1 + below(largest);
    if (features.empty && below(10) == 0) buffer.size = 0;
    if (features.empty && below(10) == 0) buffer.upper = buffer.lower;
    if (features.alignments) buffer.alignment = int64_t{1} << below(7);
    if (features.gaps && below(3) == 0) {
      for (int64_t t = buffer.lower + below(3); t < buffer.upper;) {
        const int64_t end = std::min(buffer.upper, t + 1 + below(4));
        buffer.gaps.push_back({t, end});
        t = end + below(5);
      }
    }
    if (features.fixed && below(8) == 0) {
      buffer.offset = (next_fixed + buffer.alignment - 1) / buffer.alignment * buffer.alignment;
      next_fixed = buffer.offset + buffer.size;
    }
    if (features.hints && below(2) == 0) buffer.hint = below(1000);
    problem.buffers.push_back(buffer);
  }
  return problem;
}

}  // namespace tessera::testing
