// Random problems for tests of planning, the same in every run.
#pragma once

#include <random>  // for tests that draw more numbers

#include "tessera/memory/sample_problems.h"

namespace tessera::testing {

struct Features {
  bool alignments = false;
  bool gaps = false;
  bool fixed = false;
  bool empty = false;
  bool hints = false;
};

inline Problem random_problem(uint32_t seed, int count, int64_t times, int64_t largest,
                              const Features& features = {}) {
  return tessera::random_problem({.buffers = count,
                                  .seed = seed,
                                  .times = times,
                                  .largest = largest,
                                  .aligned = features.alignments ? 1.0 : 0,
                                  .gaps = features.gaps ? 1 / 3.0 : 0,
                                  .fixed = features.fixed ? 1 / 8.0 : 0,
                                  .hints = features.hints ? 1 / 2.0 : 0,
                                  .empty = features.empty ? 1 / 10.0 : 0});
}

}  // namespace tessera::testing
