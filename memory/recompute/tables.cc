#include "tessera/memory/recompute/tables.h"

#include <algorithm>

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

}  // namespace tessera::recomputing
