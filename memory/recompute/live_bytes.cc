#include "tessera/memory/recompute/live_bytes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tessera::recomputing {

Tables::Tables(const RecomputeProblem& p)
    : problem(p),
      steps(static_cast<int>(p.steps.size())),
      values(static_cast<int>(p.values.size())),
      producer(p.values.size(), -1),
      last_read(p.values.size(), -1),
      rerun_before(p.steps.size(), steps),
      takes(p.steps.size(), 0) {
  std::vector<int> overwritten(p.values.size(), steps);  // by which step; n: by none
  for (int s = 0; s < steps; ++s) {
    const RecomputeStep& step = p.steps[s];
    cost.push_back(step.cost);
    scratch.push_back(step.scratch);
    for (int v : step.makes) {
      producer[v] = last_read[v] = s;
      if (!p.values[v].may_reuse.empty()) takes[s] = 1;
    }
    for (int v : step.reads) last_read[v] = s;
    for (int v : step.overwrites) overwritten[v] = s;
  }
  for (int s = 0; s < steps; ++s) {
    const RecomputeStep& step = p.steps[s];
    if (!step.recomputable) rerun_before[s] = 0;
    for (int v : step.reads) rerun_before[s] = std::min(rerun_before[s], overwritten[v]);
    for (int v : step.makes) rerun_before[s] = std::min(rerun_before[s], overwritten[v]);
    reads.add(counted(step.reads));
    makes.add(counted(step.makes));
  }
  for (int v = 0; v < values; ++v) {
    may_reuse.add(counted(p.values[v].may_reuse));
    bytes.push_back(p.values[v].bytes);
    if (p.values[v].result) last_read[v] = steps;
    if (producer[v] < 0) external += bytes[v];
    if (p.values[v].result && is_counted(v)) results.push_back(v);
  }
}

std::vector<int> Tables::counted(std::vector<int> list) const {
  std::erase_if(list, [&](int v) { return producer[v] < 0 || problem.values[v].bytes == 0; });
  return list;
}

std::vector<int> Tables::largest_first(std::vector<int> list) const {
  std::erase_if(list, [&](int v) { return bytes[v] == 0; });
  std::stable_sort(list.begin(), list.end(), [&](int a, int b) { return bytes[a] > bytes[b]; });
  return list;
}

bool LiveBytes::enter(const StepSequence& runs) {
  constexpr int64_t kMax = int64_t{1} << 62;
  open();
  int first = 0;  // the step whose first run is next
  for (int step : runs) {
    if (step < 0 || step > first || step >= tables_.steps) return false;
    if (step < first && first > tables_.rerun_before[step]) return false;
    if (tables_.cost[step] > kMax - cost()) return false;
    enter_run(step);
    if (step == first) ++first;
  }
  if (first < tables_.steps) return false;
  close();
  return true;
}

void LiveBytes::open() {
  entries_.runs.clear();
  entries_.copies.clear();
  entries_.reuses.clear();
  entries_.read_copies.clear();
  entries_.latest.resize(tables_.values);
  entries_.cost = 0;
}

void LiveBytes::enter_run(int step) {
  Entries& e = entries_;
  const int run = static_cast<int>(e.runs.size());
  e.runs.push_back(step);
  e.cost += tables_.cost[step];
  if (tables_.takes[step] != 0) {
    e.reuses.push_back({run, e.read_copies.size()});
    for (int v : tables_.reads[step]) e.read_copies.push_back(e.latest[v]);
  }
  for (int v : tables_.reads[step]) e.copies[e.latest[v]].last = run;
  for (int v : tables_.makes[step]) {
    e.latest[v] = static_cast<int>(e.copies.size());
    e.copies.push_back({v, run, run});
  }
}

void LiveBytes::close() {
  const int count = static_cast<int>(entries_.runs.size());
  for (int v : tables_.results) entries_.copies[entries_.latest[v]].last = count;
  add_up();
  count_taken_blocks_once();
  const auto highest = std::max_element(live_.begin(), live_.end());
  highest_ = highest == live_.end() ? -1 : static_cast<int>(highest - live_.begin());
  peak_ = highest == live_.end() ? tables_.external : *highest;
}

void LiveBytes::add_up() {
  const size_t count = entries_.runs.size();
  live_.assign(count + 2, 0);
  for (const Copy& copy : entries_.copies) {
    const int64_t bytes = tables_.bytes[copy.value];
    live_[copy.made] += bytes;
    live_[copy.last + 1] -= bytes;
  }
  live_.resize(count);
  int64_t sum = tables_.external;
  for (size_t run = 0; run < count; ++run) {
    sum += live_[run];
    live_[run] = sum + tables_.scratch[entries_.runs[run]];
  }
}

void LiveBytes::count_taken_blocks_once() {
  for (const Reuse& taking : entries_.reuses) {
    const int step = entries_.runs[taking.run];
    const auto reads = tables_.reads[step];
    const auto ends = [&](int v) {
      const auto at = std::find(reads.begin(), reads.end(), v) - reads.begin();
      const int copy = entries_.read_copies[taking.first_read + static_cast<size_t>(at)];
      return entries_.copies[copy].last == taking.run;
    };
    live_[taking.run] -= taken_bytes(tables_, step, taken_, ends);
  }
}

}  // namespace tessera::recomputing

namespace tessera {

std::optional<RunsMeasure> measure(const RecomputeProblem& problem, const StepSequence& runs) {
  const recomputing::Tables tables(problem);
  recomputing::LiveBytes live_bytes(tables);
  if (!live_bytes.enter(runs)) return std::nullopt;
  RunsMeasure result{
      live_bytes.peak(), live_bytes.cost(), live_bytes.highest(), {}, live_bytes.live()};
  for (const recomputing::Copy& copy : live_bytes.copies())
    if (copy.made <= result.highest && result.highest <= copy.last)
      result.live_values.push_back(copy.value);
  for (int v = 0; v < tables.values; ++v)
    if (tables.producer[v] < 0) result.live_values.push_back(v);
  result.live_values = tables.largest_first(std::move(result.live_values));
  return result;
}

StepSequence once_each(const RecomputeProblem& problem) {
  StepSequence runs(problem.steps.size());
  std::iota(runs.begin(), runs.end(), 0);
  return runs;
}

int64_t base_cost(const RecomputeProblem& problem) {
  int64_t sum = 0;
  for (const RecomputeStep& step : problem.steps) sum += step.cost;
  return sum;
}

}  // namespace tessera
