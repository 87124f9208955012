#include "tessera/memory/plan_check.h"

#include <algorithm>
#include <compare>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace tessera {
namespace {

// A buffer becomes live (`takes`) or is freed at `time`; gaps add further such pairs. Ends are
// before beginnings: a buffer that ends at a time does not overlap one that begins then.
struct CheckedEvent {
  int64_t time;
  bool takes;
  int64_t buffer;
  auto operator<=>(const CheckedEvent&) const = default;
};

std::string describe(const Problem& problem, const Plan& plan, int64_t i) {
  const Interval& buffer = problem.buffers[i];
  return fmt::format("buffer {} ({}) at bytes [{}, {}), live in [{}, {})", i, buffer.id,
                     plan.offsets[i], plan.offsets[i] + buffer.size, buffer.lower, buffer.upper);
}

// Returns the fault of one offset, without regard to the other buffers.
std::string misplaced(const Problem& problem, const Plan& plan, int64_t i) {
  const Interval& buffer = problem.buffers[i];
  const int64_t offset = plan.offsets[i];
  if (offset < 0) return "must start at or above 0";
  if (buffer.alignment > 1 && offset % buffer.alignment != 0)
    return fmt::format("must start at a multiple of {}", buffer.alignment);
  if (buffer.offset >= 0 && offset != buffer.offset)
    return fmt::format("must start at its fixed offset {}", buffer.offset);
  if (buffer.takes_room() && (buffer.size > plan.bytes || offset > plan.bytes - buffer.size))
    return fmt::format("must end within the plan's {} bytes", plan.bytes);
  return {};
}

std::vector<CheckedEvent> events_of(const Problem& problem) {
  std::vector<CheckedEvent> events;
  for (int64_t i = 0; i < static_cast<int64_t>(problem.buffers.size()); ++i) {
    const Interval& buffer = problem.buffers[i];
    if (buffer.size == 0 || buffer.lower >= buffer.upper) continue;
    int64_t from = buffer.lower;
    const auto holds_until = [&](int64_t to) {
      if (from >= to) return;
      events.push_back({from, true, i});
      events.push_back({to, false, i});
    };
    for (const Gap& gap : buffer.gaps) {
      holds_until(gap.lower);
      from = gap.upper;
    }
    holds_until(buffer.upper);
  }
  std::sort(events.begin(), events.end());
  return events;
}

PlanFault overlap(const Problem& problem, const Plan& plan, int64_t first, int64_t second,
                  int64_t time) {
  const int64_t from = std::max(plan.offsets[first], plan.offsets[second]);
  const int64_t to = std::min(plan.offsets[first] + problem.buffers[first].size,
                              plan.offsets[second] + problem.buffers[second].size);
  return {
      first, second,
      fmt::format("{} and {} share the bytes [{}, {}) at time {}", describe(problem, plan, first),
                  describe(problem, plan, second), from, to, time)};
}

}  // namespace

std::optional<PlanFault> check(const Problem& problem, const Plan& plan) {
  if (plan.offsets.size() != problem.buffers.size()) {
    return PlanFault{-1, -1,
                     fmt::format("the plan must have an offset for each of {} buffers, but has {}",
                                 problem.buffers.size(), plan.offsets.size())};
  }
  if (problem.capacity >= 0 && plan.bytes > problem.capacity) {
    return PlanFault{-1, -1,
                     fmt::format("the plan needs {} bytes, {} more than the capacity of {}",
                                 plan.bytes, plan.bytes - problem.capacity, problem.capacity)};
  }
  for (int64_t i = 0; i < static_cast<int64_t>(problem.buffers.size()); ++i) {
    const std::string fault = misplaced(problem, plan, i);
    if (!fault.empty()) return PlanFault{i, -1, describe(problem, plan, i) + " " + fault};
  }
  // Sweep: no held ranges overlap before an event, so a new one can only overlap its neighbours.
  std::map<int64_t, int64_t> held;  // offset -> buffer
  for (const CheckedEvent& event : events_of(problem)) {
    const int64_t offset = plan.offsets[event.buffer];
    if (!event.takes) {
      held.erase(offset);
      continue;
    }
    const auto above = held.lower_bound(offset);
    if (above != held.end() && above->first < offset + problem.buffers[event.buffer].size)
      return overlap(problem, plan, above->second, event.buffer, event.time);
    if (above != held.begin()) {
      const auto [start, below] = *std::prev(above);
      if (start + problem.buffers[below].size > offset)
        return overlap(problem, plan, below, event.buffer, event.time);
    }
    held.emplace_hint(above, offset, event.buffer);
  }
  return std::nullopt;
}

}  // namespace tessera
