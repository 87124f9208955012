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

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/memory/planners/placement.h"

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
  Sections(const PreparedProblem& prepared, std::span<const int> chosen);

  std::span<const Span> spans(int block) const {
    return {spans_.data() + first_span_[block], spans_.data() + first_span_[block + 1]};
  }
  // Returns whether a span of the block holds both the section and the one before.
  bool passes(int block, int section) const {
    for (const Span span : spans(block)) {
      if (span.lower < section && section < span.upper) return true;
    }
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
  void sweep(const PreparedProblem& prepared);
  void find_duplicates();

  std::vector<Span> spans_;
  std::vector<int32_t> first_span_;  // per block, and the end
  std::vector<int32_t> members_;
  std::vector<int32_t> first_member_;  // per section, and the end
};

}  // namespace tessera::planning
