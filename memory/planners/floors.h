// Floors: a plan that grows from the bottom, with every change undoable. Private to
// memory/planners.
//
//   floors   |  ####      Every section has a floor, below which nothing more can be placed. Every
//            |  ####  ##  unplaced block has a lowest offset: the highest floor of its sections.
//            +----------- No section's floor is below the lowest offset of its unplaced blocks.
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
  // Without `sums`, does not check that the unplaced blocks of a section fit above its floor.
  Floors(const Sections& sections, bool sums);

  // Removes all blocks from the plan; returns false if the floors rule out a plan.
  bool reset(int64_t capacity);

  // These return false if no plan can result; the caller then calls undo().
  bool place(int block, int64_t offset);   // at the floor of all of its sections
  bool rise(int section, int64_t height);  // places nothing more below the height there
  bool lift_long(Span part, bool& any);    // moves blocks as long as the part to its top

  size_t mark() const { return trail_.size(); }
  void undo(size_t mark);

  // Returns the unplaced blocks of the section; starts() those of them that begin a span there.
  std::span<const int32_t> left(int section) const {
    return {members_.data() + first_[section], static_cast<size_t>(live_[section])};
  }
  std::span<const int32_t> starts(int section) const {
    return {starts_.data() + first_start_[section], static_cast<size_t>(live_starts_[section])};
  }
  bool empty(int section) const { return live_[section] == 0; }
  bool linked(int section) const { return links_[section] > 0; }  // to the next section
  bool placed(int block) const { return placed_[block] != 0; }
  bool lifted() const { return lifted_; }  // the last place() moved another block up
  int64_t floor(int section) const { return floor_[section]; }
  int64_t top(int section) const { return top_[section]; }
  // Returns the block's lowest offset or, once it is placed, its offset.
  int64_t low(int block) const { return low_[block]; }
  const std::vector<int64_t>& offsets() const { return low_; }
  uint64_t hash(int section) const { return hash_[section]; }  // unplaced blocks that begin there
  int64_t conflict_weight(int section) const {
    return conflict_weight_[section];
  }  // conflicts there, plus 10
  // Returns the clock() of the last change of the section: its floor, ceiling or conflict weight,
  // or the lowest offset of a block that begins there. Every change advances the clock.
  int64_t changed(int section) const { return changed_at_[section]; }
  int64_t clock() const { return clock_; }
  // Returns the bytes that may still remain unused in the section.
  int64_t slack(int section) const {
    return top_[section] + spare_[section] - floor_[section] - rest_[section];
  }

 private:
  enum class Kind : int32_t { kTakenOut, kPlaced, kLow, kFloor, kTop, kFew };
  struct Change {
    Kind kind;
    int32_t index;  // a block or section
    int64_t before;
  };

  // A cache of the lowest blocks of a section, so that not all have to be compared. While blocks
  // only rise it stays valid; undo() discards it.
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
  void set_floors(int block, int64_t height);  // in all of its sections
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
  std::vector<std::vector<int32_t>> fixed_;  // per block: the fixed ones that overlap it in time
  std::vector<int64_t> spare_;               // per section: the largest padding of a block
  std::vector<int64_t> low_;                 // per block
  std::vector<char> placed_;                 // per block
  std::vector<int64_t> floor_;               // per section, like all that follow
  std::vector<int64_t> rest_;                // padded bytes of unplaced blocks
  std::vector<int64_t> top_;                 // the ceiling
  std::vector<LowestCandidates> lowest_;
  std::vector<int32_t> live_;     // number of unplaced blocks
  std::vector<int32_t> first_;    // index of its first member
  std::vector<int32_t> members_;  // the unplaced ones first
  std::vector<int32_t> links_;    // unplaced blocks that reach into the next section
  std::vector<uint64_t> hash_;
  std::vector<int64_t> conflict_weight_;
  std::vector<int64_t> changed_at_;
  int64_t clock_ = 0;
  std::vector<int32_t> live_starts_, first_start_, starts_;  // like live_, first_ and members_
  std::vector<int32_t> start_places_;  // per span: index of its block in starts()
  std::vector<int64_t> first_place_;   // per block: index in places_ for section 0
  std::vector<int32_t> places_;        // index of a block among the members of a section
  std::vector<Change> trail_;
  Span changed_{0, 0};  // sections whose floor may have to rise
  bool lifted_ = false;
};

}  // namespace tessera::planning
