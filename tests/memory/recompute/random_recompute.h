// Random recomputation problems, the same for a seed on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "tessera/memory/recompute/recompute.h"

namespace tessera {

class RandomRecompute {
 public:
  RandomRecompute(uint64_t seed, int steps) : numbers_(seed), steps_(steps) {}

  RecomputeProblem problem() {
    const bool mirrored = chance(50);
    for (int64_t i = 0, count = 1 + below(2); i < count; ++i)
      add_value(chance(50) ? 0 : below(6), "x");
    for (int s = 0; s < steps_; ++s) add_step(s, mirrored && 2 * s >= steps_);
    if (!problem_.steps.back().makes.empty())
      problem_.values[problem_.steps.back().makes[0]].result = true;
    return std::move(problem_);
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(numbers_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  int add_value(int64_t bytes, const char* kind) {
    const int index = static_cast<int>(problem_.values.size());
    problem_.values.push_back({bytes, false, {}, fmt::format("{}{}", kind, index)});
    overwritten_.push_back(false);
    return index;
  }

  void add_step(int s, bool backward) {
    RecomputeStep step;
    step.id = fmt::format("{}{}", backward ? "b" : "f", s);
    step.cost = chance(10) ? 0 : 1 + below(30);
    step.scratch = chance(30) ? below(8) : 0;
    step.recomputable = chance(90);
    step.cheap = chance(50);
    if (s > 0) read(step, problem_.steps.back().makes);
    if (backward) read(step, problem_.steps[steps_ - 1 - s].makes);
    for (int64_t i = below(3); i > 0; --i)
      read(step, {static_cast<int>(below(static_cast<int64_t>(problem_.values.size())))});
    if (chance(10)) overwrite(step, static_cast<int>(below(2)));
    for (int64_t i = chance(25) ? 2 : 1; i > 0; --i) make(step);
    problem_.steps.push_back(std::move(step));
  }

  void read(RecomputeStep& step, const std::vector<int>& values) const {
    for (int v : values)
      if (!overwritten_[v]) step.reads.push_back(v);
  }

  // Overwrites v if it is an external value.
  void overwrite(RecomputeStep& step, int v) {
    if (v >= std::ssize(problem_.values) || overwritten_[v] || made(v)) return;
    overwritten_[v] = true;
    step.overwrites.push_back(v);
    step.recomputable = false;
  }

  bool made(int v) const { return problem_.values[v].id[0] != 'x'; }

  void make(RecomputeStep& step) {
    const int v = add_value(chance(10) ? 0 : 1 + below(20), "v");
    RecomputeValue& value = problem_.values[v];
    value.result = chance(8);
    step.makes.push_back(v);
    if (step.reads.empty() || !chance(40)) return;
    const int other = step.reads[static_cast<size_t>(below(std::ssize(step.reads)))];
    if (!made(other)) return;
    value.bytes = problem_.values[other].bytes;
    value.may_reuse.push_back(other);
  }

  std::mt19937_64 numbers_;  // unlike distributions, its output is the same everywhere
  int steps_;
  RecomputeProblem problem_;
  std::vector<bool> overwritten_;
};

// Returns a problem of up to `steps` steps over values of 1 to 20 bytes, some of them updates,
// results, in place, with scratch, or with several outputs; everything a problem may have.
inline RecomputeProblem random_recompute(uint64_t seed, int steps) {
  return RandomRecompute(seed, steps).problem();
}

}  // namespace tessera
