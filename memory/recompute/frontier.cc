#include "tessera/memory/recompute/frontier.h"

#include <algorithm>

namespace tessera::recomputing {

void Frontier::add(int64_t peak, int64_t cost, const EvictionPolicy& policy) {
  const auto lower = [](const Candidate& candidate, int64_t p) { return candidate.peak < p; };
  auto at = std::lower_bound(candidates_.begin(), candidates_.end(), peak, lower);
  if (at != candidates_.end() && at->peak == peak && at->cost <= cost) return;
  if (at != candidates_.begin() && std::prev(at)->cost <= cost) return;
  auto end = at;
  while (end != candidates_.end() && end->cost >= cost) ++end;
  at = candidates_.erase(at, end);
  candidates_.insert(at, {peak, cost, policy});
}

const Candidate* Frontier::within(int64_t budget) const {
  const auto above = [](int64_t b, const Candidate& candidate) { return b < candidate.peak; };
  const auto at = std::upper_bound(candidates_.begin(), candidates_.end(), budget, above);
  return at == candidates_.begin() ? nullptr : &*std::prev(at);
}

namespace {

constexpr int kSteps = 48;  // steps between snapshots

}  // namespace

bool PolicySimulator::simulate(const EvictionPolicy& policy, bool remember) {
  live_bytes_.open();
  there_.assign(tables_.values, 0);
  if (remember) snapshots_.resize((tables_.steps + kSteps) / kSteps);
  return simulate_from(policy, 0, remember);
}

bool PolicySimulator::simulate_change(const EvictionPolicy& policy, Evict after, bool is_there,
                                      int from) {
  from = std::min(from, tables_.steps - 1);
  const Snapshot& milestone = snapshots_[from / kSteps];
  live_bytes_.go_on_from(milestone.entries);
  there_ = milestone.there;
  const int begin = from / kSteps * kSteps;
  if (after.step < begin) there_[after.value] = is_there ? 1 : 0;
  return simulate_from(policy, begin, false);
}

bool PolicySimulator::simulate_from(const EvictionPolicy& policy, int step, bool remember) {
  const size_t longest = 24 * static_cast<size_t>(tables_.steps) + 1000;
  auto next = std::lower_bound(policy.begin(), policy.end(), Evict{step, 0});
  for (; step < tables_.steps; ++step) {
    if (remember && step % kSteps == 0) snapshots_[step / kSteps] = {there_, live_bytes_.entries()};
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
bool PolicySimulator::make_again(int value, int before) {
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

void PolicySimulator::run(int step) {
  ++simulated_;
  live_bytes_.enter_run(step);
  for (int v : tables_.makes[step]) there_[v] = 1;
}

}  // namespace tessera::recomputing
