#include "tessera/memory/recompute/search.h"

#include <algorithm>

namespace tessera::recomputing {
namespace {

// The number of most promising gaps that are tried before one is taken.
constexpr size_t kTried = 4;
// The depth to which a cost estimate follows inputs that must be recomputed, too.
constexpr int kDepth = 4;

EvictionPolicy with(const EvictionPolicy& policy, Evict forget) {
  EvictionPolicy more;
  more.reserve(policy.size() + 1);
  const auto at = std::lower_bound(policy.begin(), policy.end(), forget);
  more.insert(more.end(), policy.begin(), at);
  more.push_back(forget);
  more.insert(more.end(), at, policy.end());
  return more;
}

void evict_no_more(EvictionPolicy& policy, int value, int first, int last) {
  std::erase_if(policy, [&](const Evict& f) {
    return f.value == value && first <= f.step && f.step <= last;
  });
}

}  // namespace

Search::Search(const Tables& tables, const std::vector<char>& recomputable, Frontier& frontier)
    : tables_(tables),
      frontier_(frontier),
      simulator_(tables),
      may_evict_(tables.values, 0),
      banned_(tables.values, 0) {
  for (int v = 0; v < tables.values; ++v)
    may_evict_[v] = tables.is_counted(v) && recomputable[tables.producer[v]] != 0 &&
                    tables.rerun_before[tables.producer[v]] > tables.producer[v];
}

Candidate Search::start() {
  EvictionPolicy policy;
  for (int v = 0; v < tables_.values; ++v)
    if (may_evict_[v] && tables_.last_read[v] < tables_.steps)
      policy.push_back({tables_.last_read[v], v});
  std::sort(policy.begin(), policy.end());
  simulate(policy);
  return {simulator_.live_bytes().peak(), simulator_.live_bytes().cost(), std::move(policy)};
}

bool Search::simulate(const EvictionPolicy& policy, bool remember) {
  if (!simulator_.simulate(policy, remember)) return false;
  frontier_.add(simulator_.live_bytes().peak(), simulator_.live_bytes().cost(), policy);
  return true;
}

bool Search::simulate_change(const EvictionPolicy& policy, Evict after, bool is_there, int from) {
  if (!simulator_.simulate_change(policy, after, is_there, from)) return false;
  frontier_.add(simulator_.live_bytes().peak(), simulator_.live_bytes().cost(), policy);
  return true;
}

double Search::excess(int64_t budget) const {
  double sum = 0;
  for (int64_t live : simulator_.live_bytes().live())
    if (live > budget) sum += static_cast<double>(live - budget);
  return sum;
}

// Finds the gaps of the sequence simulated last.
void Search::find_gaps(int64_t budget) {
  const StepSequence& runs = simulator_.live_bytes().runs();
  const std::vector<int64_t>& live = simulator_.live_bytes().live();
  gaps_.clear();
  used_with_.assign(tables_.values, -1);
  used_above_.assign(tables_.values, 0);
  int first = 0;
  int64_t above = 0;  // runs above the budget before this one
  for (size_t run = 0; run < runs.size(); ++run) {
    const int step = runs[run];
    for (int v : tables_.reads[step])
      if (used_with_[v] < first && above > used_above_[v]) add_gap(v, first, above);
    above += live[run] > budget ? 1 : 0;
    const auto use = [&](int v) {
      used_with_[v] = first;
      used_above_[v] = above;
    };
    for (int v : tables_.reads[step]) use(v);
    for (int v : tables_.makes[step]) use(v);
    if (step == first) ++first;
  }
  for (int v : tables_.results)
    if (above > used_above_[v]) add_gap(v, tables_.steps, above);
}

void Search::add_gap(int v, int step, int64_t above) {
  if (!may_evict_[v] || banned_[v] || step > tables_.rerun_before[tables_.producer[v]]) return;
  const auto runs = static_cast<double>(above - used_above_[v]);
  const double saved = runs * static_cast<double>(tables_.bytes[v]);
  gaps_.push_back({{used_with_[v], v}, step, saved / (cost_again(v, step, kDepth) + 1)});
}

// Estimates the cost of recomputing a value with a step, including inputs not read that late.
double Search::cost_again(int value, int step, int depth) const {
  const int producer = tables_.producer[value];
  auto cost = static_cast<double>(tables_.cost[producer]);
  if (depth == 0) return cost;
  for (int v : tables_.reads[producer])
    if (may_evict_[v] && tables_.last_read[v] < step) cost += cost_again(v, step, depth - 1);
  return cost;
}

bool Search::keep_what_it_reads(EvictionPolicy& policy, const Gap& gap) const {
  const size_t before = policy.size();
  for (int v : tables_.reads[tables_.producer[gap.after.value]])
    if (may_evict_[v] && tables_.last_read[v] < gap.to)
      evict_no_more(policy, v, tables_.last_read[v], gap.to);
  return policy.size() < before;
}

bool Search::evict_best(Candidate& candidate, int64_t budget) {
  if (!simulate(candidate.policy)) return false;
  const double excess_now = excess(budget);
  find_gaps(budget);
  const auto better = [](const Gap& a, const Gap& b) {
    return a.worth != b.worth ? a.worth > b.worth : a.after < b.after;
  };
  std::sort(gaps_.begin(), gaps_.end(), better);
  double best = 0;
  Candidate next{-1, 0, {}};
  const auto consider = [&](bool can, EvictionPolicy& policy) {
    const double saved = can ? excess_now - excess(budget) : 0;
    if (saved <= 0) return;
    const int64_t cost = simulator_.live_bytes().cost();
    const double worth =
        saved / static_cast<double>(std::max<int64_t>(cost - candidate.cost, 0) + 1);
    if (worth <= best) return;
    best = worth;
    next = {simulator_.live_bytes().peak(), cost, policy};
  };
  for (size_t i = 0; i < gaps_.size() && (i < kTried || next.peak < 0); ++i) {
    EvictionPolicy policy = with(candidate.policy, gaps_[i].after);
    consider(simulate_change(policy, gaps_[i].after, false, gaps_[i].to), policy);
    if (keep_what_it_reads(policy, gaps_[i])) consider(simulate(policy, false), policy);
  }
  if (next.peak < 0) return false;
  candidate = std::move(next);
  return true;
}

bool Search::descend(Candidate& candidate, int64_t budget, int64_t most) {
  while (candidate.peak > budget)
    if (simulated() >= most || !evict_best(candidate, budget)) return false;
  return true;
}

// Returns the evictions that led to recomputation, the dearest first. Requires that the candidate's
// sequence was simulated last.
std::vector<Search::Evicted> Search::evicted(const Candidate& candidate) const {
  std::vector<Evict> since(tables_.values, {-1, -1});  // per value: its first and last eviction
  std::vector<Evicted> result;
  auto next = candidate.policy.begin();
  int first = 0;
  for (int step : simulator_.live_bytes().runs()) {
    for (int v : tables_.makes[step]) {
      if (since[v].step >= 0 && may_evict_[v])
        result.push_back({{since[v].step, v}, since[v].value, first});
      since[v] = {-1, -1};
    }
    if (step < first) continue;
    for (; next != candidate.policy.end() && next->step == step; ++next) {
      Evict& when = since[next->value];
      when = {when.step < 0 ? step : when.step, step};
    }
    ++first;
  }
  std::stable_sort(result.begin(), result.end(), [&](const Evicted& a, const Evicted& b) {
    return tables_.cost[tables_.producer[a.after.value]] >
           tables_.cost[tables_.producer[b.after.value]];
  });
  return result;
}

void Search::keep(Candidate& candidate, int64_t budget, int64_t most) {
  if (!simulate(candidate.policy)) return;
  std::vector<Evicted> all = evicted(candidate);
  for (size_t i = 0; i < all.size() && simulated() < most;) {
    const Evicted one = all[i++];
    EvictionPolicy policy = candidate.policy;
    evict_no_more(policy, one.after.value, one.after.step, one.last);
    if (!simulate_change(policy, one.after, true, one.to)) continue;
    if (simulator_.live_bytes().peak() > budget || simulator_.live_bytes().cost() >= candidate.cost)
      continue;
    candidate = {simulator_.live_bytes().peak(), simulator_.live_bytes().cost(), std::move(policy)};
    simulate(candidate.policy);
    all = evicted(candidate);
    --i;
  }
}

size_t Search::random_below(size_t n) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<size_t>((random_ >> 33) % n);
}

void Search::exchange(Candidate& candidate, int64_t budget, int times, int64_t most) {
  for (int i = 0; i < times && simulated() < most; ++i) {
    simulate(candidate.policy);
    const std::vector<Evicted> all = evicted(candidate);
    if (all.empty()) return;
    Candidate other = candidate;
    std::vector<int> kept;
    for (size_t k = 0, count = 1 + random_below(3); k < count; ++k) {
      const Evicted& one = all[std::min(random_below(all.size()), random_below(all.size()))];
      evict_no_more(other.policy, one.after.value, one.after.step, one.last);
      kept.push_back(one.after.value);
      banned_[one.after.value] = 1;
    }
    bool fits = simulate(other.policy);
    other.peak = simulator_.live_bytes().peak();
    other.cost = simulator_.live_bytes().cost();
    fits = fits && descend(other, budget, most);
    for (int v : kept) banned_[v] = 0;
    if (!fits || other.cost > candidate.cost) continue;
    keep(other, budget, most);
    if (other.cost <= candidate.cost) candidate = std::move(other);
  }
}

}  // namespace tessera::recomputing
