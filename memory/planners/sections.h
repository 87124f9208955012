// Sections: a problem as blocks over sections, for the exact search. Private to memory/planners.
//
// A section is a time at which the set of live buffers is largest: no neighbouring time has all of
// them and more. Constraints that hold at the sections hold at every time. Times become section
// numbers; a few dozen sections often represent thousands of nodes:
//
//   a  ###....        time 0 1 2 3 4 5 6
//   b  .#####.        only 1 (a b) and 3 (b c) are sections:
//   c  ...####        0 is less than 1, 6 is less than 3, the others are equal to 1 or 3
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "tessera/memory/planners/placement.h"
#include "tessera/runtime/integers.h"

namespace tessera::planning {

struct Span {
  int32_t lower;  // first section
  int32_t upper;  // one past the last section
  bool operator==(const Span&) const = default;
};

// A buffer that needs memory.
struct Block {
  int64_t size;
  int64_t padded_size;   // size rounded up to Sections::unit: a block above begins there
  int64_t alignment;     // divisor of the offset
  int64_t fixed;         // required offset, or -1
  Span hull;             // from its first section to its last
  int32_t buffer;        // its index in the problem
  int32_t duplicate_of;  // the previous block equal to it, or -1
};

struct Sections {
  // Makes blocks of the chosen buffers, except of those that need no memory.
  Sections(const PreparedProblem& prepared, std::span<const int> chosen) {
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
      blocks.push_back(
          {buffer.size, buffer.size, buffer.alignment, buffer.offset, {-1, -1}, i, -1});
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

  std::span<const Span> spans(int block) const {
    return {spans_.data() + first_span_[block], spans_.data() + first_span_[block + 1]};
  }
  // Returns whether a span of the block holds both the section and the one before.
  bool passes(int block, int section) const {
    for (const Span span : spans(block))
      if (span.lower < section && section < span.upper) return true;
    return false;
  }
  std::span<const int32_t> members(int section) const {
    return {members_.data() + first_member_[section], members_.data() + first_member_[section + 1]};
  }
  // Returns the index of a block's first span; the spans of a block have consecutive indices.
  int first_span(int block) const { return first_span_[block]; }
  const Span& span(int index) const { return spans_[index]; }
  size_t span_count() const { return spans_.size(); }
  int count() const { return static_cast<int>(first_member_.size()) - 1; }

  std::vector<Block> blocks;
  int64_t unit = 1;  // divisor of all offsets
  // False, without blocks, if time is out or if there are so many pairs of a section and a block
  // that a decision would take long.
  bool complete = true;
  bool gaps = false;     // some block has several spans
  bool uniform = false;  // no block is fixed or aligned to more than the unit

 private:
  static constexpr size_t kMaxPairs = 16'000'000;

  // A block becomes live (`takes`) or is freed.
  struct Event {
    int64_t time;
    bool takes;
    int32_t block;
    auto operator<=>(const Event&) const = default;
  };

  static void add_span(Span span, std::vector<Span>& spans) {
    if (!spans.empty() && spans.back().upper == span.lower) {
      spans.back().upper = span.upper;  // no section was in the gap between them
    } else if (span.lower < span.upper) {
      spans.push_back(span);
    }
  }

  void sweep(const PreparedProblem& prepared) {
    std::vector<Event> events;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const auto block = static_cast<int32_t>(b);
      for (const Gap& part : live_parts(prepared.problem.buffers[blocks[b].buffer])) {
        events.push_back({part.lower, true, block});
        events.push_back({part.upper, false, block});
      }
    }
    std::sort(events.begin(), events.end());
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

  void find_duplicates() {
    std::map<std::tuple<int32_t, int32_t, int64_t, int64_t>, std::vector<int32_t>> alike;
    for (size_t b = 0; b < blocks.size(); ++b) {
      Block& block = blocks[b];
      if (block.fixed >= 0) continue;
      std::vector<int32_t>& others =
          alike[{block.hull.lower, block.hull.upper, block.size, block.alignment}];
      for (auto other = others.rbegin(); other != others.rend() && block.duplicate_of < 0;
           ++other) {
        const std::span<const Span> a = spans(static_cast<int>(b)), c = spans(*other);
        if (std::equal(a.begin(), a.end(), c.begin(), c.end())) block.duplicate_of = *other;
      }
      others.push_back(static_cast<int32_t>(b));
    }
  }

  std::vector<Span> spans_;
  std::vector<int32_t> first_span_;  // per block, and the end
  std::vector<int32_t> members_;
  std::vector<int32_t> first_member_;  // per section, and the end
};

}  // namespace tessera::planning
