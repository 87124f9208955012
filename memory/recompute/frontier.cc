#include "tessera/memory/recompute/frontier.h"

#include <algorithm>

namespace tessera::recomputing {

void Frontier::add(int64_t peak, int64_t cost, const Policy& policy) {
  const auto lower = [](const Way& way, int64_t p) { return way.peak < p; };
  auto at = std::lower_bound(ways_.begin(), ways_.end(), peak, lower);
  if (at != ways_.end() && at->peak == peak && at->cost <= cost) return;
  if (at != ways_.begin() && std::prev(at)->cost <= cost) return;
  auto end = at;
  while (end != ways_.end() && end->cost >= cost) ++end;
  at = ways_.erase(at, end);
  ways_.insert(at, {peak, cost, policy});
}

const Way* Frontier::within(int64_t budget) const {
  const auto above = [](int64_t b, const Way& way) { return b < way.peak; };
  const auto at = std::upper_bound(ways_.begin(), ways_.end(), budget, above);
  return at == ways_.begin() ? nullptr : &*std::prev(at);
}

namespace {

constexpr int kSteps = 48;  // between milestones

}  // namespace

bool Replay::play(const Policy& policy) {
  ledger_.open();
  there_.assign(tables_.values, 0);
  return play_on(policy, 0, false);
}

bool Replay::play_and_remember(const Policy& policy) {
  ledger_.open();
  there_.assign(tables_.values, 0);
  milestones_.resize((tables_.steps + kSteps) / kSteps);
  return play_on(policy, 0, true);
}

bool Replay::vary(const Policy& policy, Forget after, bool is_there, int from) {
  from = std::min(from, tables_.steps - 1);
  const Milestone& milestone = milestones_[from / kSteps];
  ledger_.go_on_from(milestone.entries);
  there_ = milestone.there;
  const int begin = from / kSteps * kSteps;
  if (after.step < begin) there_[after.value] = is_there ? 1 : 0;
  return play_on(policy, begin, false);
}

bool Replay::play_on(const Policy& policy, int step, bool remember) {
  const size_t longest = 24 * static_cast<size_t>(tables_.steps) + 1000;
  auto next = std::lower_bound(policy.begin(), policy.end(), Forget{step, 0});
  for (; step < tables_.steps; ++step) {
    if (remember && step % kSteps == 0) milestones_[step / kSteps] = {there_, ledger_.entries()};
    for (int v : tables_.reads[step])
      if (!there_[v] && !make_again(v, step)) return false;
    run(step);
    if (ledger_.runs().size() > longest) return false;
    for (; next != policy.end() && next->step == step; ++next) there_[next->value] = 0;
  }
  for (int v : tables_.results)
    if (!there_[v] && !make_again(v, tables_.steps)) return false;
  ledger_.close();
  return true;
}

// The walk over what is missing goes by a list, as chains may be as long as a program.
bool Replay::make_again(int value, int before) {
  wanted_.assign(1, value);
  while (!wanted_.empty()) {
    const int v = wanted_.back();
    if (there_[v]) {
      wanted_.pop_back();
      continue;
    }
    const int step = tables_.maker[v];
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

void Replay::run(int step) {
  ++played_;
  ledger_.enter_run(step);
  for (int v : tables_.makes[step]) there_[v] = 1;
}

}  // namespace tessera::recomputing
