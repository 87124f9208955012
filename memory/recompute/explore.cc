#include "tessera/memory/recompute/explore.h"

#include <algorithm>
#include <cmath>

#include "tessera/memory/recompute/search.h"

namespace tessera::recomputing {
namespace {

constexpr int kRungs = 64;

// Returns the runs to simulate: a few thousand times a small problem, a very large one less often.
int64_t effort_for(const Tables& tables, int64_t share) {
  constexpr double kMax = 30e6;  // about half a second
  const auto steps = static_cast<double>(tables.steps);
  return static_cast<int64_t>(
      std::min(kMax, static_cast<double>(share) * steps * std::sqrt(steps)));
}

// Returns the budget of a rung; kRungs equal distances lead from the highest to the lowest.
int64_t rung(int64_t highest, int64_t lowest, int index) {
  const int64_t range = highest - lowest;
  return highest - range / kRungs * index - range % kRungs * index / kRungs;
}

std::vector<char> recomputable_steps(const RecomputeProblem& problem, bool only_cheap) {
  std::vector<char> recomputable;
  for (const RecomputeStep& step : problem.steps)
    recomputable.push_back(step.recomputable && (step.cheap || !only_cheap));
  return recomputable;
}

}  // namespace

void go_down(const Tables& tables, bool only_cheap, Frontier& frontier) {
  const std::vector<char> recomputable = recomputable_steps(tables.problem, only_cheap);
  const int64_t effort = effort_for(tables, only_cheap ? 30 : 240);
  Search search(tables, recomputable, frontier);
  const Candidate top = search.start();
  const int64_t lowest = peak_bound(tables.problem).bytes;
  Candidate candidate = top;
  for (int i = 1; i <= kRungs; ++i)
    if (!search.descend(candidate, rung(top.peak, lowest, i), effort / 3)) break;
  for (int i = 2; i < kRungs; i += 2) {
    candidate = top;
    const int64_t share = (effort - search.simulated()) * 4 / (kRungs - i);
    search.descend(candidate, rung(top.peak, lowest, i), search.simulated() + share);
  }
}

void cut_in_segments(const Tables& tables, Frontier& frontier) {
  Search search(tables, recomputable_steps(tables.problem, false), frontier);
  const EvictionPolicy natural = search.start().policy;
  LiveBytes live_bytes(tables);
  if (!live_bytes.enter(once_each(tables.problem))) return;
  const int turn = live_bytes.highest();
  // Per value: the last step up to `turn` that makes or reads it, the first reading step after it.
  std::vector<int> last(tables.values, -1), next(tables.values, tables.steps);
  for (int s = tables.steps - 1; s >= 0; --s) {
    for (int v : tables.makes[s])
      if (s <= turn && last[v] < 0) last[v] = s;
    for (int v : tables.reads[s]) {
      if (s > turn) next[v] = s;
      if (s <= turn && last[v] < 0) last[v] = s;
    }
  }
  for (int segments = 1; segments <= std::min(kRungs, turn); ++segments) {
    EvictionPolicy policy = natural;
    for (int v = 0; v < tables.values; ++v) {
      if (!search.may_evict(v) || last[v] < 0 || last[v] == turn) continue;
      const auto segment = [&](int s) { return int64_t{s} * segments / (turn + 1); };
      const bool crosses = segment(tables.producer[v]) != segment(last[v]);
      const bool can = next[v] < tables.steps && next[v] <= tables.rerun_before[tables.producer[v]];
      if (can && !crosses) policy.push_back({last[v], v});
    }
    std::sort(policy.begin(), policy.end());
    search.simulate(policy);
  }
}

void improve(const Tables& tables, Frontier& frontier) {
  const int64_t effort = effort_for(tables, 110);
  Search search(tables, recomputable_steps(tables.problem, false), frontier);
  const int64_t highest = search.start().peak;
  for (int round = 0; search.simulated() < effort; ++round) {
    const int64_t before = search.simulated();
    for (int i = kRungs; i >= 1 && search.simulated() < effort; --i) {
      const int64_t budget = rung(highest, frontier.candidates().front().peak, i);
      const Candidate* known = frontier.within(budget);
      if (known == nullptr || known->peak == highest) continue;
      Candidate candidate = *known;
      if (round == 0) search.keep(candidate, budget, effort);
      search.exchange(candidate, budget, 2, effort);
    }
    if (search.simulated() == before) return;
  }
}

std::vector<StepSequence> candidates_of(const Tables& tables, const Frontier& frontier) {
  PolicySimulator replay(tables);
  std::vector<StepSequence> result;
  for (const Candidate& candidate : frontier.candidates())
    if (replay.simulate(candidate.policy)) result.push_back(replay.live_bytes().runs());
  return result;
}

}  // namespace tessera::recomputing
