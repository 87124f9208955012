// A strategy of recomputation of one's own: past the step at which most bytes are live, only every
// n-th value is kept, and what is missing is made again when it is read.
#pragma once
#include <vector>

#include <tessera/memory/recompute/recompute.h>

struct EveryNth : tessera::RecomputeStrategy {
  std::string_view name() const override { return "every_nth"; }
  std::string_view explanation() const override { return "keeps every n-th value"; }

  // For several n; which of them fit a budget, and what they cost, is found out by solve().
  std::vector<tessera::Runs> ways(const tessera::RecomputeProblem& problem) const override {
    const auto once = tessera::measure(problem, tessera::once_each(problem));
    std::vector<tessera::Runs> ways;
    for (int n : {2, 3, 4, 6, 8, 12}) ways.push_back(way(problem, once->highest, n));
    return ways;
  }

  static tessera::Runs way(const tessera::RecomputeProblem& problem, int turn, int n) {
    std::vector<bool> there(problem.values.size(), true);
    std::vector<int> maker(problem.values.size(), -1);
    tessera::Runs runs;
    for (int s = 0; s < static_cast<int>(problem.steps.size()); ++s) {
      for (int v : problem.steps[s].reads) make(problem, maker, v, there, runs);
      runs.push_back(s);
      for (int v : problem.steps[s].makes) maker[v] = s;
      for (size_t v = 0; s == turn && v < there.size(); ++v)
        there[v] = maker[v] < 0 || !problem.steps[maker[v]].again || v % n == 0;
    }
    return runs;
  }

  static void make(const tessera::RecomputeProblem& problem, const std::vector<int>& maker, int v,
                   std::vector<bool>& there, tessera::Runs& runs) {
    if (there[v]) return;
    for (int read : problem.steps[maker[v]].reads) make(problem, maker, read, there, runs);
    runs.push_back(maker[v]);
    for (int made : problem.steps[maker[v]].makes) there[made] = true;
  }
};
