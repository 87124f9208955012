#include "tessera/memory/planners/conflict.h"

#include <algorithm>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/planners/exact.h"
#include "tessera/memory/planners/peel.h"
#include "tessera/memory/planners/search.h"

namespace tessera::planning {
namespace {

bool takes_room(const Interval& b) { return b.size > 0 && b.lower < b.upper; }

}  // namespace

std::vector<int> clash_of(const Problem& problem) {
  Problem fixed;
  Plan plan{{}, INT64_MAX};
  std::vector<int> indices;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& b = problem.buffers[i];
    if (b.offset < 0) continue;
    fixed.buffers.push_back(b);
    plan.offsets.push_back(b.offset);
    indices.push_back(static_cast<int>(i));
  }
  const auto fault = check(fixed, plan);
  if (!fault) return {};
  const auto [first, second] = std::minmax(indices[fault->first], indices[fault->second]);
  return {first, second};
}

std::vector<int> crowd_above(const Problem& problem, const Ready& ready, int64_t capacity,
                             const Deadline& deadline) {
  std::vector<int> all;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& b = problem.buffers[i];
    if (!takes_room(b)) continue;
    if (std::max<int64_t>(b.offset, 0) > capacity - b.size) return {static_cast<int>(i)};
    all.push_back(static_cast<int>(i));
  }
  const auto most = std::max_element(ready.load.begin(), ready.load.end());
  if (most != ready.load.end() && *most > capacity) {
    const auto time = static_cast<int32_t>(most - ready.load.begin());
    std::erase_if(all, [&](int i) { return !ready.lives(ready.items[i], time); });
    return all;
  }
  // Then it takes what rounding adds to the sizes.
  const Sections sections(problem, all, deadline);
  for (int s = 0; s < sections.count(); ++s) {
    std::vector<int> live;
    int64_t room = 0, spare = 0;
    for (int32_t b : sections.members(s)) {
      const Block& block = sections.blocks[b];
      live.push_back(block.buffer);
      room += block.room;
      spare = std::max(spare, block.room - block.size);
    }
    if (room - spare > capacity) return live;
  }
  return all;
}

std::vector<int> conflict_of(const Problem& problem, const Ready& ready, std::vector<int> suspects,
                             int64_t capacity, int64_t nodes, const Deadline& deadline) {
  const int64_t step = step_of(problem);
  capacity = capacity / step * step;
  std::vector<int>& kept = suspects;
  for (size_t chunk = std::max<size_t>(kept.size() / 2, 1);; chunk /= 2) {
    for (size_t from = 0; from < kept.size();) {
      if (deadline.passed()) return {};
      const auto begin = kept.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end =
          kept.begin() + static_cast<std::ptrdiff_t>(std::min(from + chunk, kept.size()));
      std::vector<int> others(kept.begin(), begin);
      others.insert(others.end(), end, kept.end());
      const Peeled peeled = peel(ready, std::move(others), step, capacity);
      const Sections sections(problem, peeled.core, deadline);
      if (!sections.complete) return {};
      Search search(sections, capacity, {}, deadline);
      const Outcome outcome = search.run(std::max<int64_t>(chunk > 1 ? nodes / 8 : nodes, 1));
      nodes -= search.nodes();
      if (outcome == Outcome::kNone) {
        kept.erase(begin, end);
      } else if (chunk == 1 && outcome == Outcome::kSpent) {
        return {};
      } else {
        from += chunk;
      }
    }
    if (chunk == 1) break;
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace tessera::planning
