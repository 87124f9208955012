// Eviction policies, the frontier of the best ones, and Search, which finds policies. Private to
// memory/recompute.
//
// A policy says after which first run which value is evicted. A value that is evicted and then read
// is recomputed right before, with all that this needs, and stays live until it is evicted again.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/memory/recompute/live_bytes.h"

namespace tessera::recomputing {

// Evicts `value` after the first run of `step`.
struct Evict {
  int step;
  int value;
  auto operator<=>(const Evict&) const = default;
};

using EvictionPolicy = std::vector<Evict>;  // ascending

struct Candidate {
  int64_t peak, cost;
  EvictionPolicy policy;
};

// The Pareto frontier of peak and cost over all candidates seen, the lowest peak first.
class Frontier {
 public:
  void add(int64_t peak, int64_t cost, const EvictionPolicy& policy) {
    const auto lower = [](const Candidate& candidate, int64_t p) { return candidate.peak < p; };
    auto at = std::lower_bound(candidates_.begin(), candidates_.end(), peak, lower);
    if (at != candidates_.end() && at->peak == peak && at->cost <= cost) return;
    if (at != candidates_.begin() && std::prev(at)->cost <= cost) return;
    auto end = at;
    while (end != candidates_.end() && end->cost >= cost) ++end;
    at = candidates_.erase(at, end);
    candidates_.insert(at, {peak, cost, policy});
  }

  // Returns the cheapest candidate within the budget, or nullptr.
  const Candidate* within(int64_t budget) const {
    const auto above = [](int64_t b, const Candidate& candidate) { return b < candidate.peak; };
    const auto at = std::upper_bound(candidates_.begin(), candidates_.end(), budget, above);
    return at == candidates_.begin() ? nullptr : &*std::prev(at);
  }

  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  std::vector<Candidate> candidates_;
};

// Makes the sequences of policies.
class PolicySimulator {
 public:
  explicit PolicySimulator(const Tables& tables) : tables_(tables), live_bytes_(tables) {}

  // Makes the sequence of a policy; live_bytes() then describes it. Returns false if a value cannot
  // be recomputed, or if the sequence is too long to be of use.
  // `remember`: stores a snapshot every few steps, from which simulate_change() continues.
  bool simulate(const EvictionPolicy& policy, bool remember = false) {
    live_bytes_.open();
    there_.assign(tables_.values, 0);
    if (remember) snapshots_.resize((tables_.steps + kSteps) / kSteps);
    return simulate_from(policy, 0, remember);
  }

  // Simulates a policy that differs from the remembered one only in whether a value is live between
  // a first run and that of step `from`, which reads the value next. Simulates only the part that
  // differs.
  bool simulate_change(const EvictionPolicy& policy, Evict after, bool is_there, int from) {
    from = std::min(from, tables_.steps - 1);
    const Snapshot& milestone = snapshots_[from / kSteps];
    live_bytes_.go_on_from(milestone.entries);
    there_ = milestone.there;
    const int begin = from / kSteps * kSteps;
    if (after.step < begin) there_[after.value] = is_there ? 1 : 0;
    return simulate_from(policy, begin, false);
  }

  const LiveBytes& live_bytes() const { return live_bytes_; }
  // The number of simulated runs, a measure of the time taken.
  int64_t simulated() const { return simulated_; }

 private:
  static constexpr int kSteps = 48;  // steps between snapshots
  struct Snapshot {
    std::vector<char> there;
    LiveBytes::Entries entries;
  };

  bool simulate_from(const EvictionPolicy& policy, int step, bool remember) {
    const size_t longest = 24 * static_cast<size_t>(tables_.steps) + 1000;
    auto next = std::lower_bound(policy.begin(), policy.end(), Evict{step, 0});
    for (; step < tables_.steps; ++step) {
      if (remember && step % kSteps == 0)
        snapshots_[step / kSteps] = {there_, live_bytes_.entries()};
      for (int v : tables_.reads[step])
        if (!there_[v] && !make_again(v, step)) return false;
      run(step);
      if (live_bytes_.runs().size() > longest) return false;
      for (; next != policy.end() && next->step == step; ++next) there_[next->value] = 0;
    }
    for (int v : tables_.results)
      if (!there_[v] && !make_again(v, tables_.steps)) return false;
    live_bytes_.close();
    return true;
  }

  // Recomputes `value` with an explicit stack, as chains may be as long as a program.
  bool make_again(int value, int before) {
    wanted_.assign(1, value);
    while (!wanted_.empty()) {
      const int v = wanted_.back();
      if (there_[v]) {
        wanted_.pop_back();
        continue;
      }
      const int step = tables_.producer[v];
      if (before > tables_.rerun_before[step]) return false;
      const size_t already = wanted_.size();
      for (int read : tables_.reads[step])
        if (!there_[read]) wanted_.push_back(read);
      if (wanted_.size() > already) continue;
      run(step);
      wanted_.pop_back();
    }
    return true;
  }

  void run(int step) {
    ++simulated_;
    live_bytes_.enter_run(step);
    for (int v : tables_.makes[step]) there_[v] = 1;
  }

  const Tables& tables_;
  LiveBytes live_bytes_;
  std::vector<char> there_;
  std::vector<int> wanted_;
  std::vector<Snapshot> snapshots_;
  int64_t simulated_ = 0;
};

inline EvictionPolicy with(const EvictionPolicy& policy, Evict forget) {
  EvictionPolicy more;
  more.reserve(policy.size() + 1);
  const auto at = std::lower_bound(policy.begin(), policy.end(), forget);
  more.insert(more.end(), policy.begin(), at);
  more.push_back(forget);
  more.insert(more.end(), at, policy.end());
  return more;
}

inline void evict_no_more(EvictionPolicy& policy, int value, int first, int last) {
  std::erase_if(policy, [&](const Evict& f) {
    return f.value == value && first <= f.step && f.step <= last;
  });
}

// Descends from no recomputation by evicting one value after the other, the one that saves most
// bytes for its cost first. Values whose eviction proves unnecessary are kept after all.
//
// Adds all that it simulates to the frontier. Effort is the number of simulated runs; `most` limits
// the total of this search.
class Search {
 public:
  // May evict the values of steps for which `recomputable` holds.
  Search(const Tables& tables, const std::vector<char>& recomputable, Frontier& frontier)
      : tables_(tables),
        frontier_(frontier),
        simulator_(tables),
        may_evict_(tables.values, 0),
        banned_(tables.values, 0) {
    for (int v = 0; v < tables.values; ++v)
      may_evict_[v] = tables.is_counted(v) && recomputable[tables.producer[v]] != 0 &&
                      tables.rerun_before[tables.producer[v]] > tables.producer[v];
  }

  bool may_evict(int value) const { return may_evict_[value] != 0; }
  int64_t simulated() const { return simulator_.simulated(); }

  // Returns the policy that evicts each value after its last read.
  Candidate start() {
    EvictionPolicy policy;
    for (int v = 0; v < tables_.values; ++v)
      if (may_evict_[v] && tables_.last_read[v] < tables_.steps)
        policy.push_back({tables_.last_read[v], v});
    std::sort(policy.begin(), policy.end());
    simulate(policy);
    return {peak(), cost(), std::move(policy)};
  }

  bool simulate(const EvictionPolicy& policy, bool remember = true) {
    return add_if(simulator_.simulate(policy, remember), policy);
  }

  // Evicts values until the peak is at or under the budget; returns false if that fails.
  bool descend(Candidate& candidate, int64_t budget, int64_t most) {
    while (candidate.peak > budget)
      if (simulated() >= most || !evict_best(candidate, budget)) return false;
    return true;
  }

  // Keeps evicted values after all, as far as the budget allows.
  void keep(Candidate& candidate, int64_t budget, int64_t most) {
    if (!simulate(candidate.policy)) return;
    std::vector<Evicted> all = evicted(candidate);
    for (size_t i = 0; i < all.size() && simulated() < most;) {
      const Evicted one = all[i++];
      EvictionPolicy policy = candidate.policy;
      evict_no_more(policy, one.after.value, one.after.step, one.last);
      if (!simulate_change(policy, one.after, true, one.to)) continue;
      if (peak() > budget || cost() >= candidate.cost) continue;
      candidate = {peak(), cost(), std::move(policy)};
      simulate(candidate.policy);
      all = evicted(candidate);
      --i;
    }
  }

  // Keeps some of the values that cost most, descends again with others, and takes the result if it
  // is cheaper; `times` times.
  void exchange(Candidate& candidate, int64_t budget, int times, int64_t most) {
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
      other.peak = peak();
      other.cost = cost();
      fits = fits && descend(other, budget, most);
      for (int v : kept) banned_[v] = 0;
      if (!fits || other.cost > candidate.cost) continue;
      keep(other, budget, most);
      if (other.cost <= candidate.cost) candidate = std::move(other);
    }
  }

 private:
  // The number of most promising gaps that are tried before one is taken.
  static constexpr size_t kTried = 4;
  // The depth to which a cost estimate follows inputs that must be recomputed, too.
  static constexpr int kDepth = 4;

  // A value and two steps between which it is not read: it could be evicted after the first.
  struct Gap {
    Evict after;
    int to;        // the step that reads the value next
    double worth;  // estimate: bytes x runs above the budget / cost
  };
  // A value that is evicted after a step (last after `last`) and recomputed with step `to`.
  struct Evicted {
    Evict after;
    int last, to;
  };

  bool simulate_change(const EvictionPolicy& policy, Evict after, bool is_there, int from) {
    return add_if(simulator_.simulate_change(policy, after, is_there, from), policy);
  }

  bool add_if(bool simulated, const EvictionPolicy& policy) {
    if (simulated) frontier_.add(peak(), cost(), policy);
    return simulated;
  }

  // Results of the last simulation.
  int64_t peak() const { return simulator_.live_bytes().peak(); }
  int64_t cost() const { return simulator_.live_bytes().cost(); }

  // Finds the gaps of the sequence simulated last.
  void find_gaps(int64_t budget) {
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

  void add_gap(int v, int step, int64_t above) {
    if (!may_evict_[v] || banned_[v] || step > tables_.rerun_before[tables_.producer[v]]) return;
    const auto runs = static_cast<double>(above - used_above_[v]);
    const double saved = runs * static_cast<double>(tables_.bytes[v]);
    gaps_.push_back({{used_with_[v], v}, step, saved / (cost_again(v, step, kDepth) + 1)});
  }

  // Estimates the cost of recomputing a value with a step, including inputs not read that late.
  double cost_again(int value, int step, int depth) const {
    const int producer = tables_.producer[value];
    auto sum = static_cast<double>(tables_.cost[producer]);
    if (depth == 0) return sum;
    for (int v : tables_.reads[producer])
      if (may_evict_[v] && tables_.last_read[v] < step) sum += cost_again(v, step, depth - 1);
    return sum;
  }

  // Keeps inputs that only this recomputation reads so late; returns false if there are none.
  bool keep_what_it_reads(EvictionPolicy& policy, const Gap& gap) const {
    const size_t before = policy.size();
    for (int v : tables_.reads[tables_.producer[gap.after.value]])
      if (may_evict_[v] && tables_.last_read[v] < gap.to)
        evict_no_more(policy, v, tables_.last_read[v], gap.to);
    return policy.size() < before;
  }

  bool evict_best(Candidate& candidate, int64_t budget) {
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
      const double worth =
          saved / static_cast<double>(std::max<int64_t>(cost() - candidate.cost, 0) + 1);
      if (worth <= best) return;
      best = worth;
      next = {peak(), cost(), policy};
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

  double excess(int64_t budget) const {
    double sum = 0;
    for (int64_t live : simulator_.live_bytes().live())
      if (live > budget) sum += static_cast<double>(live - budget);
    return sum;
  }

  // Returns the evictions that led to recomputation, the dearest first. Requires that the
  // candidate's sequence was simulated last.
  std::vector<Evicted> evicted(const Candidate& candidate) const {
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

  size_t random_below(size_t n) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((random_ >> 33) % n);
  }

  const Tables& tables_;
  Frontier& frontier_;
  PolicySimulator simulator_;
  std::vector<char> may_evict_, banned_;  // per value
  std::vector<Gap> gaps_;
  std::vector<int> used_with_;       // per value: the step with whose first run it was used last
  std::vector<int64_t> used_above_;  // and the number of runs above the budget up to then
  uint64_t random_ = 1;
};

}  // namespace tessera::recomputing
