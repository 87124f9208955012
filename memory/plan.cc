#include "tessera/memory/plan.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

constexpr int64_t kLargest = int64_t{1} << 62;

// Returns the fault of a single buffer, or an empty string.
std::string fault_of(const Interval& b) {
  if (b.size < 0) return fmt::format("its size must not be below 0, but it is {}", b.size);
  if (b.alignment < 1)
    return fmt::format("its alignment must be at least 1, but is {}", b.alignment);
  if (b.size >= kLargest || b.alignment >= kLargest || b.offset >= kLargest ||
      b.lower <= -kLargest || b.lower >= kLargest || b.upper <= -kLargest || b.upper >= kLargest) {
    return "its numbers must fit 62 bits";
  }
  if (b.lower > b.upper)
    return fmt::format("it must not end before it begins, but lives in [{}, {})", b.lower, b.upper);
  if (b.offset >= 0 && b.offset % b.alignment != 0) {
    return fmt::format("its fixed offset {} must be a multiple of its alignment {}", b.offset,
                       b.alignment);
  }
  int64_t after = b.lower;
  for (const Gap& gap : b.gaps) {
    if (gap.lower < after || gap.lower >= gap.upper || gap.upper > b.upper) {
      return fmt::format("its gaps must ascend inside [{}, {}), but one is [{}, {})", b.lower,
                         b.upper, gap.lower, gap.upper);
    }
    after = gap.upper;
  }
  return {};
}

// Bytes that become live or are freed at a time; rounding added `slack` of them.
struct Event {
  int64_t time;
  bool begins;
  int64_t bytes;
  int64_t slack;
  auto operator<=>(const Event&) const = default;
};

}  // namespace

std::optional<std::string> malformed(const Problem& problem) {
  int64_t total = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& buffer = problem.buffers[i];
    std::string fault = fault_of(buffer);
    if (fault.empty()) {
      // Each summand is below 2^62, so no sum can overflow before the comparison.
      total = std::max(total, std::max<int64_t>(buffer.offset, 0)) + buffer.size;
      if (total < kLargest) total += buffer.alignment;
      if (total >= kLargest) fault = "the sum of the sizes up to this buffer must fit 62 bits";
    }
    if (!fault.empty()) return fmt::format("buffer {} ({}): {}", i, buffer.id, fault);
  }
  return std::nullopt;
}

std::vector<Gap> live_parts(const Interval& buffer) {
  std::vector<Gap> parts;
  int64_t from = buffer.lower;
  for (const Gap& gap : buffer.gaps) {
    if (from < gap.lower) parts.push_back({from, gap.lower});
    from = gap.upper;
  }
  if (from < buffer.upper) parts.push_back({from, buffer.upper});
  return parts;
}

int64_t lower_bound(const Problem& problem) {
  // Offsets are multiples of what all alignments share, so every block below another one takes its
  // rounded size. Only the topmost does not: hence the largest slack is subtracted.
  int64_t unit = 0;
  int64_t bound = 0;
  for (const Interval& buffer : problem.buffers) {
    if (!buffer.takes_room()) continue;
    unit = std::gcd(unit, buffer.alignment);
    bound = std::max(bound, std::max<int64_t>(buffer.offset, 0) + buffer.size);
  }
  std::vector<Event> events;
  for (const Interval& buffer : problem.buffers) {
    if (!buffer.takes_room()) continue;
    const int64_t bytes = round_up(buffer.size, unit);
    for (const Gap& part : live_parts(buffer)) {
      events.push_back({part.lower, true, bytes, bytes - buffer.size});
      events.push_back({part.upper, false, bytes, bytes - buffer.size});
    }
  }
  std::sort(events.begin(), events.end());
  int64_t live = 0;
  std::multiset<int64_t> slacks;
  for (const Event& event : events) {
    live += event.begins ? event.bytes : -event.bytes;
    if (unit > 1) {
      if (event.begins) slacks.insert(event.slack);
      if (!event.begins) slacks.erase(slacks.find(event.slack));
    }
    bound = std::max(bound, live - (slacks.empty() ? 0 : *slacks.rbegin()));
  }
  return bound;
}

int64_t unplanned_bytes(const Problem& problem) {
  int64_t total = 0;
  for (const Interval& buffer : problem.buffers)
    total = round_up(total, buffer.alignment) + buffer.size;
  return total;
}

}  // namespace tessera
