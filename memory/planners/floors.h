// A plan that grows from the bottom, with every step undoable. Private to memory/planners.
//
//   floors   |  ####      Every section has a floor, below which nothing more can stand; every
//            |  ####  ##  block that is left has a lowest offset, the highest floor in its
//            +----------- sections, and no section's floor is below the lowest of its blocks.
//    section  012345678
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tessera/memory/planners/sections.h"

namespace tessera::planning {

class Floors {
 public:
  // Without `sums` it does not see that what a section has to take does not fit above its floor.
  Floors(const Sections& sections, bool sums);

  // Takes all blocks out again; false when there is no plan within the capacity.
  bool reset(int64_t capacity);

  // Each returns false when no plan can come of it; the caller then undoes it.
  bool place(int block, int64_t offset);   // at the floor of all of its sections
  bool rise(int section, int64_t height);  // nothing more stands below the height there
  bool lift_long(Span part, bool& any);    // blocks as long as the part go to its top

  size_t mark() const { return trail_.size(); }
  void undo(size_t mark);

  // The blocks left that live in the section, and of these the ones that begin a span there.
  std::span<const int32_t> left(int section) const {
    return {members_.data() + first_[section], static_cast<size_t>(live_[section])};
  }
  std::span<const int32_t> starts(int section) const {
    return {starts_.data() + first_start_[section], static_cast<size_t>(live_starts_[section])};
  }
  bool empty(int section) const { return live_[section] == 0; }
  bool linked(int section) const { return links_[section] > 0; }  // with the next section
  bool placed(int block) const { return placed_[block] != 0; }
  bool lifted() const { return lifted_; }  // whether the last place() moved another block up
  int64_t floor(int section) const { return floor_[section]; }
  int64_t top(int section) const { return top_[section]; }
  // Its lowest offset; when placed, its offset.
  int64_t low(int block) const { return low_[block]; }
  const std::vector<int64_t>& offsets() const { return low_; }
  uint64_t hash(int section) const { return hash_[section]; }  // of what is left and begins there
  int64_t conflict_weight(int section) const {
    return conflict_weight_[section];
  }  // how often it ended a try, and 10
  // When a floor, a ceiling, the blame there or the lowest offset of a block that begins there has
  // last changed, by a clock that every change moves on.
  int64_t changed(int section) const { return changed_at_[section]; }
  int64_t clock() const { return clock_; }
  // Bytes that may still be lost there.
  int64_t slack(int section) const {
    return top_[section] + spare_[section] - floor_[section] - rest_[section];
  }

 private:
  enum class Kind : int32_t { kTakenOut, kPlaced, kLow, kFloor, kTop, kFew };
  struct Change {
    Kind kind;
    int32_t index;  // of a block or section
    int64_t before;
  };

  // Some of the lowest blocks of a section, so that not all have to be asked which is lowest now.
  // Going on, blocks only rise; what is undone forgets them.
  static constexpr int32_t kFew = 8;
  struct LowestCandidates {
    int64_t others = std::numeric_limits<int64_t>::max();  // no other block is lower than this
    int32_t count = 0;
    std::array<int32_t, kFew> blocks = {};
  };

  void set(Kind kind, std::vector<int64_t>& values, int index, int64_t value) {
    trail_.push_back({kind, index, values[index]});
    values[index] = value;
  }
  void note(int section) { changed_at_[section] = ++clock_; }
  void note_block(int block);
  void note_starts(int block);
  void bump_weight(int section);
  int32_t& place_of(int block, int section) { return places_[first_place_[block] + section]; }
  void take_out(int block, int64_t offset);
  void take_out_start(int section, int32_t& place);
  void put_back(int block);
  void set_floors(int block, int64_t height);  // of all of its sections
  bool settle(int block, int64_t& offset) const;
  bool settle_around(int block, int64_t& offset, int64_t highest) const;
  bool raise(int block, int64_t offset);
  bool raise_above(Span span, int64_t height);
  int64_t lowest(int section);
  int64_t find_lowest_candidates(int section);
  void add(LowestCandidates& candidates, int32_t block) const;
  bool clean(bool fits);

  const Sections& sections_;
  const bool sums_;
  std::vector<std::vector<int32_t>> fixed_;  // per block: the fixed ones that it meets
  std::vector<int64_t> spare_;  // per section: the most that rounding added to one block
  std::vector<int64_t> low_;    // per block
  std::vector<char> placed_;    // per block
  std::vector<int64_t> floor_;  // per section, as all that follow
  std::vector<int64_t> rest_;   // the room of what is left
  std::vector<int64_t> top_;    // the ceiling
  std::vector<LowestCandidates> lowest_;
  std::vector<int32_t> live_;     // how many are left
  std::vector<int32_t> first_;    // where its members begin
  std::vector<int32_t> members_;  // those that are left first
  std::vector<int32_t> links_;    // blocks left that reach into the next section
  std::vector<uint64_t> hash_;
  std::vector<int64_t> conflict_weight_;
  std::vector<int64_t> changed_at_;
  int64_t clock_ = 0;
  std::vector<int32_t> live_starts_, first_start_, starts_;  // as live_, first_ and members_
  std::vector<int32_t> start_places_;  // per span: where its block is among those that start there
  std::vector<int64_t> first_place_;   // per block: where its place in section 0 would be
  std::vector<int32_t> places_;        // of the block among the members of the section
  std::vector<Change> trail_;
  Span changed_{0, 0};  // sections whose floor may have to rise
  bool lifted_ = false;
};

}  // namespace tessera::planning
