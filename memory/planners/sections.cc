#include "tessera/memory/planners/sections.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "tessera/runtime/integers.h"

namespace tessera::planning {
namespace {

constexpr size_t kMaxPairs = 16'000'000;

// A block becomes live (`takes`) or is freed.
struct Event {
  int64_t time;
  bool takes;
  int32_t block;
};

void add_span(Span span, std::vector<Span>& spans) {
  if (!spans.empty() && spans.back().upper == span.lower) {
    spans.back().upper = span.upper;  // no section was in the gap between them
  } else if (span.lower < span.upper) {
    spans.push_back(span);
  }
}

}  // namespace

Sections::Sections(const PreparedProblem& prepared, std::span<const int> chosen) {
  int64_t shared = 0;
  int64_t widest = 1;
  for (int i : chosen) {
    const Interval& buffer = prepared.problem.buffers[i];
    // A buffer that is never live outside its gaps needs no bytes.
    int64_t live = buffer.upper - buffer.lower;
    for (const Gap& gap : buffer.gaps) live -= gap.upper - gap.lower;
    if (!buffer.takes_room() || live == 0) continue;
    shared = std::gcd(shared, buffer.alignment);
    widest = std::max(widest, buffer.alignment);
    if (buffer.offset >= 0) widest = INT64_MAX;
    blocks.push_back({buffer.size, buffer.size, buffer.alignment, buffer.offset, {-1, -1}, i, -1});
  }
  unit = std::max<int64_t>(shared, 1);
  uniform = widest == unit;
  for (Block& block : blocks) block.padded_size = round_up(block.size, unit);
  sweep(prepared);
  if (!complete) {
    blocks.clear();
    members_.clear();
    first_member_.resize(1);
    return;
  }
  find_duplicates();
}

void Sections::sweep(const PreparedProblem& prepared) {
  std::vector<Event> events;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const auto block = static_cast<int32_t>(b);
    for (const Gap& part : live_parts(prepared.problem.buffers[blocks[b].buffer])) {
      events.push_back({part.lower, true, block});
      events.push_back({part.upper, false, block});
    }
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.time, a.takes, a.block) < std::tuple(b.time, b.takes, b.block);
  });
  // A section ends when its first member ends, if a block has begun since the last one.
  std::vector<std::vector<Span>> found(blocks.size());
  std::vector<int32_t> live;
  std::vector<int32_t> place(blocks.size());
  std::vector<int32_t> since(blocks.size());
  bool begun = false;
  size_t fixed = 0, meetings = 0;  // live fixed blocks; overlaps of fixed blocks with others
  first_member_.push_back(0);
  for (const Event& event : events) {
    if (event.takes) {
      place[event.block] = static_cast<int32_t>(live.size());
      const bool is_fixed = blocks[event.block].fixed >= 0;
      meetings += is_fixed ? live.size() : fixed;
      fixed += is_fixed;
      since[event.block] = count();
      live.push_back(event.block);
      begun = true;
      continue;
    }
    if (begun && (members_.size() + meetings > kMaxPairs || prepared.deadline.passed())) {
      complete = false;
      break;
    }
    if (begun) {
      members_.insert(members_.end(), live.begin(), live.end());
      first_member_.push_back(static_cast<int32_t>(members_.size()));
      begun = false;
    }
    fixed -= blocks[event.block].fixed >= 0;
    add_span({since[event.block], count()}, found[event.block]);
    live[place[event.block]] = live.back();
    place[live.back()] = place[event.block];
    live.pop_back();
  }
  first_span_.push_back(0);
  for (size_t b = 0; b < blocks.size(); ++b) {
    spans_.insert(spans_.end(), found[b].begin(), found[b].end());
    first_span_.push_back(static_cast<int32_t>(spans_.size()));
    if (!found[b].empty()) blocks[b].hull = {found[b].front().lower, found[b].back().upper};
    gaps = gaps || found[b].size() > 1;
  }
}

void Sections::find_duplicates() {
  std::map<std::tuple<int32_t, int32_t, int64_t, int64_t>, std::vector<int32_t>> alike;
  for (size_t b = 0; b < blocks.size(); ++b) {
    Block& block = blocks[b];
    if (block.fixed >= 0) continue;
    std::vector<int32_t>& others =
        alike[{block.hull.lower, block.hull.upper, block.size, block.alignment}];
    for (auto other = others.rbegin(); other != others.rend() && block.duplicate_of < 0; ++other) {
      const std::span<const Span> a = spans(static_cast<int>(b)), c = spans(*other);
      if (std::equal(a.begin(), a.end(), c.begin(), c.end())) block.duplicate_of = *other;
    }
    others.push_back(static_cast<int32_t>(b));
  }
}

}  // namespace tessera::planning
