// A problem as the exact search sees it: blocks over sections. Private to memory/planners.
//
// A section is a time at which the set of live buffers is largest, in that no neighbouring time has
// all of them and more; what holds at the sections holds at every time. Times become the numbers of
// sections, so that a few dozen sections often stand for thousands of steps:
//
//   a  ####...        time 0 1 2 3 4 5 6
//   b  .#####.        only 1 (a b) and 3 (b c) are sections:
//   c  ...####        at 0 is less than at 1, and 2, 4 to 6 are less than 3
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/memory/plan.h"
#include "tessera/memory/planners/deadline.h"

namespace tessera::planning {

struct Span {
  int32_t lower;  // first section
  int32_t upper;  // one past the last section
  bool operator==(const Span&) const = default;
};

// A buffer that takes room.
struct Block {
  int64_t size;
  int64_t padded_size;   // the size rounded up to Sections::unit: what stands above it starts there
  int64_t alignment;     // of its offset
  int64_t fixed;         // its offset, or -1
  Span hull;             // from its first section to its last
  int32_t buffer;        // its index in the problem
  int32_t duplicate_of;  // the block before it that is like it in everything, or -1
};

struct Sections {
  // Of some of the problem's buffers; those that take no room are no blocks.
  Sections(const Problem& problem, std::span<const int> chosen, const Deadline& deadline = {});

  std::span<const Span> spans(int block) const {
    return {spans_.data() + first_span_[block], spans_.data() + first_span_[block + 1]};
  }
  // Whether one of the block's spans holds both the section and the one before.
  bool passes(int block, int section) const {
    for (const Span span : spans(block)) {
      if (span.lower < section && section < span.upper) return true;
    }
    return false;
  }
  std::span<const int32_t> members(int section) const {
    return {members_.data() + first_member_[section], members_.data() + first_member_[section + 1]};
  }
  // Spans by number: those of a block follow one another.
  int first_span(int block) const { return first_span_[block]; }
  const Span& span(int index) const { return spans_[index]; }
  size_t span_count() const { return spans_.size(); }
  int count() const { return static_cast<int>(first_member_.size()) - 1; }

  std::vector<Block> blocks;
  int64_t unit = 1;  // all offsets are multiples of it
  // Not when there are so many pairs of a section and a block that a decision would take long, or
  // when time is out; there are no blocks then.
  bool complete = true;
  bool gaps = false;     // some block has several spans
  bool uniform = false;  // no block is fixed or aligned to more than the unit

 private:
  void sweep(const Problem& problem, const Deadline& deadline);
  void find_duplicates();

  std::vector<Span> spans_;
  std::vector<int32_t> first_span_;  // per block, and the end
  std::vector<int32_t> members_;
  std::vector<int32_t> first_member_;  // per section, and the end
};

}  // namespace tessera::planning
