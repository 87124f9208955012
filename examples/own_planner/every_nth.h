// EveryNth: an example of a custom recomputation strategy. After the step at which most bytes are
// live, only every n-th value is kept; the others are recomputed when they are read.
#pragma once
#include <vector>

#include <tessera/memory/recompute/recompute.h>

struct EveryNth : tessera::RecomputeStrategy {
  std::string_view name() const override { return "every_nth"; }
  std::string_view explanation() const override { return "keeps every n-th value"; }

  // Returns a candidate for each n. solve() finds those that fit the budget, and their costs.
  std::vector<tessera::StepSequence> candidates(
      const tessera::RecomputeProblem& problem) const override {
    const auto once = tessera::measure(problem, tessera::once_each(problem));
    std::vector<tessera::StepSequence> candidates;
    for (int n : {2, 3, 4, 6, 8, 12}) candidates.push_back(candidate(problem, once->highest, n));
    return candidates;
  }

  static tessera::StepSequence candidate(const tessera::RecomputeProblem& problem, int turn,
                                         int n) {
    std::vector<bool> there(problem.values.size(), true);
    std::vector<int> producer(problem.values.size(), -1);
    tessera::StepSequence runs;
    for (int s = 0; s < static_cast<int>(problem.steps.size()); ++s) {
      for (int v : problem.steps[s].reads) make(problem, producer, v, there, runs);
      runs.push_back(s);
      for (int v : problem.steps[s].makes) producer[v] = s;
      for (size_t v = 0; s == turn && v < there.size(); ++v)
        there[v] = producer[v] < 0 || !problem.steps[producer[v]].recomputable || v % n == 0;
    }
    return runs;
  }

  static void make(const tessera::RecomputeProblem& problem, const std::vector<int>& producer,
                   int v, std::vector<bool>& there, tessera::StepSequence& runs) {
    if (there[v]) return;
    for (int read : problem.steps[producer[v]].reads) make(problem, producer, read, there, runs);
    runs.push_back(producer[v]);
    for (int made : problem.steps[producer[v]].makes) there[made] = true;
  }
};
