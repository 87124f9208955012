#include "tessera/memory/recompute/explore.h"

#include <algorithm>
#include <cmath>

#include "tessera/memory/recompute/search.h"

namespace tessera::recomputing {
namespace {

constexpr int kRungs = 64;

// Runs to play: a few thousand times through a small problem, less often through a very large one.
int64_t effort_for(const Tables& tables, int64_t share) {
  constexpr double kMost = 30e6;  // about half a second
  const auto steps = static_cast<double>(tables.steps);
  return static_cast<int64_t>(
      std::min(kMost, static_cast<double>(share) * steps * std::sqrt(steps)));
}

// Budgets from the highest peak down to the lowest, one further down for each rung.
int64_t rung(int64_t highest, int64_t lowest, int index) {
  const int64_t range = highest - lowest;
  return highest - range / kRungs * index - range % kRungs * index / kRungs;
}

std::vector<char> may_run_again(const RecomputeProblem& problem, bool only_cheap) {
  std::vector<char> again;
  for (const RecomputeStep& step : problem.steps)
    again.push_back(step.again && (step.cheap || !only_cheap));
  return again;
}

}  // namespace

void go_down(const Tables& tables, bool only_cheap, Frontier& frontier) {
  const std::vector<char> again = may_run_again(tables.problem, only_cheap);
  const int64_t effort = effort_for(tables, only_cheap ? 30 : 240);
  Search search(tables, again, frontier);
  const Way top = search.start();
  const int64_t lowest = peak_bound(tables.problem).bytes;
  Way way = top;
  for (int i = 1; i <= kRungs; ++i)
    if (!search.descend(way, rung(top.peak, lowest, i), effort / 3)) break;
  for (int i = 2; i < kRungs; i += 2) {
    way = top;
    const int64_t share = (effort - search.played()) * 4 / (kRungs - i);
    search.descend(way, rung(top.peak, lowest, i), search.played() + share);
  }
}

void cut_in_segments(const Tables& tables, Frontier& frontier) {
  Search search(tables, may_run_again(tables.problem, false), frontier);
  const Policy natural = search.start().policy;
  Ledger ledger(tables);
  if (!ledger.enter(once_each(tables.problem))) return;
  const int turn = ledger.highest();
  // Of each value: the last step up to the turn that makes or reads it, the first one after it.
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
    Policy policy = natural;
    for (int v = 0; v < tables.values; ++v) {
      if (!search.may_forget(v) || last[v] < 0 || last[v] == turn) continue;
      const auto segment = [&](int s) { return int64_t{s} * segments / (turn + 1); };
      const bool crosses = segment(tables.maker[v]) != segment(last[v]);
      const bool can = next[v] < tables.steps && next[v] <= tables.rerun_before[tables.maker[v]];
      if (can && !crosses) policy.push_back({last[v], v});
    }
    std::sort(policy.begin(), policy.end());
    search.look_at(policy);
  }
}

void improve(const Tables& tables, Frontier& frontier) {
  const int64_t effort = effort_for(tables, 110);
  Search search(tables, may_run_again(tables.problem, false), frontier);
  const int64_t highest = search.start().peak;
  for (int round = 0; search.played() < effort; ++round) {
    const int64_t before = search.played();
    for (int i = kRungs; i >= 1 && search.played() < effort; --i) {
      const int64_t budget = rung(highest, frontier.ways().front().peak, i);
      const Way* known = frontier.within(budget);
      if (known == nullptr || known->peak == highest) continue;
      Way way = *known;
      if (round == 0) search.keep(way, budget, effort);
      search.exchange(way, budget, 2, effort);
    }
    if (search.played() == before) return;
  }
}

std::vector<Runs> ways_of(const Tables& tables, const Frontier& frontier) {
  Replay replay(tables);
  std::vector<Runs> result;
  for (const Way& way : frontier.ways())
    if (replay.play(way.policy)) result.push_back(replay.ledger().runs());
  return result;
}

}  // namespace tessera::recomputing
