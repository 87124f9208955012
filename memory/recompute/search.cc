#include "tessera/memory/recompute/search.h"

#include <algorithm>

namespace tessera::recomputing {
namespace {

// How many gaps are tried, of those that promise most, before one is taken.
constexpr size_t kTried = 4;
// How far an estimate of costs looks for what else has to be made again.
constexpr int kDepth = 4;

Policy with(const Policy& policy, Forget forget) {
  Policy more;
  more.reserve(policy.size() + 1);
  const auto at = std::lower_bound(policy.begin(), policy.end(), forget);
  more.insert(more.end(), policy.begin(), at);
  more.push_back(forget);
  more.insert(more.end(), at, policy.end());
  return more;
}

void forget_no_more(Policy& policy, int value, int first, int last) {
  std::erase_if(policy, [&](const Forget& f) {
    return f.value == value && first <= f.step && f.step <= last;
  });
}

}  // namespace

Search::Search(const Tables& tables, const std::vector<char>& again, Frontier& frontier)
    : tables_(tables),
      frontier_(frontier),
      replay_(tables),
      may_forget_(tables.values, 0),
      banned_(tables.values, 0) {
  for (int v = 0; v < tables.values; ++v)
    may_forget_[v] = tables.is_counted(v) && again[tables.maker[v]] != 0 &&
                     tables.rerun_before[tables.maker[v]] > tables.maker[v];
}

Way Search::start() {
  Policy policy;
  for (int v = 0; v < tables_.values; ++v)
    if (may_forget_[v] && tables_.last_read[v] < tables_.steps)
      policy.push_back({tables_.last_read[v], v});
  std::sort(policy.begin(), policy.end());
  play(policy);
  return {replay_.ledger().peak(), replay_.ledger().cost(), std::move(policy)};
}

void Search::look_at(const Policy& policy) { play(policy); }

bool Search::play(const Policy& policy, bool remember) {
  if (!(remember ? replay_.play_and_remember(policy) : replay_.play(policy))) return false;
  frontier_.add(replay_.ledger().peak(), replay_.ledger().cost(), policy);
  return true;
}

bool Search::vary(const Policy& policy, Forget after, bool is_there, int from) {
  if (!replay_.vary(policy, after, is_there, from)) return false;
  frontier_.add(replay_.ledger().peak(), replay_.ledger().cost(), policy);
  return true;
}

double Search::excess(int64_t budget) const {
  double sum = 0;
  for (int64_t live : replay_.ledger().live())
    if (live > budget) sum += static_cast<double>(live - budget);
  return sum;
}

// Of the sequence played last.
void Search::find_gaps(int64_t budget) {
  const Runs& runs = replay_.ledger().runs();
  const std::vector<int64_t>& live = replay_.ledger().live();
  gaps_.clear();
  used_with_.assign(tables_.values, -1);
  used_above_.assign(tables_.values, 0);
  int first = 0;
  int64_t above = 0;  // runs before this one
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
  if (!may_forget_[v] || banned_[v] || step > tables_.rerun_before[tables_.maker[v]]) return;
  const auto runs = static_cast<double>(above - used_above_[v]);
  const double saved = runs * static_cast<double>(tables_.bytes[v]);
  gaps_.push_back({{used_with_[v], v}, step, saved / (cost_again(v, step, kDepth) + 1)});
}

// About what making it again with a step costs: with what is not read after that otherwise.
double Search::cost_again(int value, int step, int depth) const {
  const int maker = tables_.maker[value];
  auto cost = static_cast<double>(tables_.cost[maker]);
  if (depth == 0) return cost;
  for (int v : tables_.reads[maker])
    if (may_forget_[v] && tables_.last_read[v] < step) cost += cost_again(v, step, depth - 1);
  return cost;
}

bool Search::keep_what_it_reads(Policy& policy, const Gap& gap) const {
  const size_t before = policy.size();
  for (int v : tables_.reads[tables_.maker[gap.after.value]])
    if (may_forget_[v] && tables_.last_read[v] < gap.to)
      forget_no_more(policy, v, tables_.last_read[v], gap.to);
  return policy.size() < before;
}

bool Search::forget_best(Way& way, int64_t budget) {
  if (!play(way.policy)) return false;
  const double excess_now = excess(budget);
  find_gaps(budget);
  const auto better = [](const Gap& a, const Gap& b) {
    return a.worth != b.worth ? a.worth > b.worth : a.after < b.after;
  };
  std::sort(gaps_.begin(), gaps_.end(), better);
  double best = 0;
  Way next{-1, 0, {}};
  const auto consider = [&](bool can, Policy& policy) {
    const double saved = can ? excess_now - excess(budget) : 0;
    if (saved <= 0) return;
    const int64_t cost = replay_.ledger().cost();
    const double worth = saved / static_cast<double>(std::max<int64_t>(cost - way.cost, 0) + 1);
    if (worth <= best) return;
    best = worth;
    next = {replay_.ledger().peak(), cost, policy};
  };
  for (size_t i = 0; i < gaps_.size() && (i < kTried || next.peak < 0); ++i) {
    Policy policy = with(way.policy, gaps_[i].after);
    consider(vary(policy, gaps_[i].after, false, gaps_[i].to), policy);
    if (keep_what_it_reads(policy, gaps_[i])) consider(play(policy, false), policy);
  }
  if (next.peak < 0) return false;
  way = std::move(next);
  return true;
}

bool Search::descend(Way& way, int64_t budget, int64_t most) {
  while (way.peak > budget)
    if (played() >= most || !forget_best(way, budget)) return false;
  return true;
}

// Of the sequence played last, which is that of the way: what is forgotten in vain, the dearest
// first.
std::vector<Search::Forgotten> Search::forgotten(const Way& way) const {
  std::vector<Forget> since(tables_.values, {-1, -1});  // when it was forgotten, and that repeated
  std::vector<Forgotten> result;
  auto next = way.policy.begin();
  int first = 0;
  for (int step : replay_.ledger().runs()) {
    for (int v : tables_.makes[step]) {
      if (since[v].step >= 0 && may_forget_[v])
        result.push_back({{since[v].step, v}, since[v].value, first});
      since[v] = {-1, -1};
    }
    if (step < first) continue;
    for (; next != way.policy.end() && next->step == step; ++next) {
      Forget& when = since[next->value];
      when = {when.step < 0 ? step : when.step, step};
    }
    ++first;
  }
  std::stable_sort(result.begin(), result.end(), [&](const Forgotten& a, const Forgotten& b) {
    return tables_.cost[tables_.maker[a.after.value]] > tables_.cost[tables_.maker[b.after.value]];
  });
  return result;
}

void Search::keep(Way& way, int64_t budget, int64_t most) {
  if (!play(way.policy)) return;
  std::vector<Forgotten> all = forgotten(way);
  for (size_t i = 0; i < all.size() && played() < most;) {
    const Forgotten one = all[i++];
    Policy policy = way.policy;
    forget_no_more(policy, one.after.value, one.after.step, one.last);
    if (!vary(policy, one.after, true, one.to)) continue;
    if (replay_.ledger().peak() > budget || replay_.ledger().cost() >= way.cost) continue;
    way = {replay_.ledger().peak(), replay_.ledger().cost(), std::move(policy)};
    play(way.policy);
    all = forgotten(way);
    --i;
  }
}

size_t Search::random_below(size_t n) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<size_t>((random_ >> 33) % n);
}

void Search::exchange(Way& way, int64_t budget, int times, int64_t most) {
  for (int i = 0; i < times && played() < most; ++i) {
    play(way.policy);
    const std::vector<Forgotten> all = forgotten(way);
    if (all.empty()) return;
    Way other = way;
    std::vector<int> kept;
    for (size_t k = 0, count = 1 + random_below(3); k < count; ++k) {
      const Forgotten& one = all[std::min(random_below(all.size()), random_below(all.size()))];
      forget_no_more(other.policy, one.after.value, one.after.step, one.last);
      kept.push_back(one.after.value);
      banned_[one.after.value] = 1;
    }
    bool fits = play(other.policy);
    other.peak = replay_.ledger().peak();
    other.cost = replay_.ledger().cost();
    fits = fits && descend(other, budget, most);
    for (int v : kept) banned_[v] = 0;
    if (!fits || other.cost > way.cost) continue;
    keep(other, budget, most);
    if (other.cost <= way.cost) way = std::move(other);
  }
}

}  // namespace tessera::recomputing
