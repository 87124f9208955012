// Floors: a plan that grows from the bottom, with every change undoable. Private to
// memory/planners.
//
//   floors   |  ####      Every section has a floor, below which nothing more can be placed. Every
//            |  ####  ##  unplaced block has a lowest offset: the highest floor of its sections.
//            +----------- No section's floor is below the lowest offset of its unplaced blocks.
//    section  012345678
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tessera/memory/planners/sections.h"

namespace tessera::planning {

constexpr int64_t kWall = std::numeric_limits<int64_t>::max();  // above all offsets

inline uint64_t mix(uint64_t z) {  // the finaliser of SplitMix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Floors {
 public:
  // Without `sums`, does not check that the unplaced blocks of a section fit above its floor.
  Floors(const Sections& sections, bool sums)
      : sections_(sections), sums_(sums), fixed_(sections.blocks.size()) {
    start_places_.resize(sections.span_count());
    std::vector<int32_t> fixed_here;
    for (int s = 0; s < sections.count(); ++s) {
      const std::span<const int32_t> members = sections.members(s);
      first_.push_back(static_cast<int32_t>(members_.size()));
      members_.insert(members_.end(), members.begin(), members.end());
      first_start_.push_back(static_cast<int32_t>(starts_.size()));
      int64_t most = 0;
      fixed_here.clear();
      for (int32_t b : members) {
        most = std::max(most, sections.blocks[b].padded_size - sections.blocks[b].size);
        if (sections.blocks[b].fixed >= 0) fixed_here.push_back(b);
        for (const Span span : sections.spans(b))
          if (span.lower == s) starts_.push_back(b);
      }
      // Two overlapping blocks share the section in which the later one begins.
      for (size_t i = first_start_.back(); i < starts_.size(); ++i) {
        const int32_t b = starts_[i];
        if (sections.blocks[b].fixed < 0) {
          fixed_[b].insert(fixed_[b].end(), fixed_here.begin(), fixed_here.end());
          continue;
        }
        for (int32_t other : members)
          if (sections.blocks[other].fixed < 0) fixed_[other].push_back(b);
      }
      spare_.push_back(most);
    }
    for (std::vector<int32_t>& blocks : fixed_) {
      std::sort(blocks.begin(), blocks.end());
      blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    }
    int64_t places = 0;
    for (const Block& block : sections.blocks) {
      first_place_.push_back(places - block.hull.lower);
      places += block.hull.upper - block.hull.lower;
    }
    places_.resize(places);
    conflict_weight_.assign(sections.count(), 10);
    changed_at_.assign(sections.count(), 0);
  }

  // Removes all blocks from the plan; returns false if the floors rule out a plan.
  bool reset(int64_t capacity) {
    const size_t count = sections_.count();
    const std::vector<Block>& blocks = sections_.blocks;
    low_.assign(blocks.size(), -1);
    placed_.assign(blocks.size(), 0);
    floor_.assign(count, 0);
    rest_.assign(count, 0);
    top_.assign(count, capacity);
    lowest_.assign(count, {.others = -1});
    live_.assign(count, 0);
    live_starts_.assign(count, 0);
    links_.assign(count, 0);
    hash_.assign(count, 0);
    changed_at_.assign(count, ++clock_);
    for (size_t b = 0; b < blocks.size(); ++b) {
      const int block = static_cast<int>(b);
      const Span hull = blocks[b].hull;
      for (int s = hull.lower; s + 1 < hull.upper; ++s) ++links_[s];
      hash_[hull.lower] ^= hash_of(block);
      int32_t index = sections_.first_span(block);
      for (const Span span : sections_.spans(block)) {
        start_places_[index++] = live_starts_[span.lower];
        starts_[first_start_[span.lower] + live_starts_[span.lower]++] = block;
        for (int s = span.lower; s < span.upper; ++s) {
          place_of(block, s) = live_[s];
          members_[first_[s] + live_[s]++] = block;
          rest_[s] += blocks[b].padded_size;
        }
      }
    }
    bool fits = true;
    for (size_t b = 0; b < blocks.size() && fits; ++b) fits = raise(static_cast<int>(b), 0);
    for (size_t s = 0; s < count && sums_; ++s)
      fits = fits && (live_[s] == 0 || slack(static_cast<int>(s)) >= 0);
    changed_ = {0, sections_.count()};
    fits = clean(fits);
    trail_.clear();
    return fits;
  }

  // place(), rise() and lift_long() return false if no plan can result; the caller then calls
  // undo().

  // Places a block at the floor of all of its sections.
  bool place(int block, int64_t offset) {
    take_out(block, offset);
    changed_ = sections_.blocks[block].hull;
    const int64_t above = offset + sections_.blocks[block].padded_size;
    trail_.push_back({Kind::kPlaced, block, offset});
    set_floors(block, above);
    bool fits = true;
    for (const Span span : sections_.spans(block)) {
      for (int s = span.lower; s < span.upper && fits; ++s) {
        fits = !sums_ || live_[s] == 0 || slack(s) >= 0;
        if (!fits) bump_weight(s);
      }
    }
    lifted_ = !fits;
    for (const Span span : sections_.spans(block)) fits = fits && raise_above(span, above);
    lifted_ = lifted_ || !fits;
    return clean(fits);
  }

  // Places nothing more below the height in the section.
  bool rise(int section, int64_t height) {
    bool fits = true;
    for (int32_t b : left(section))
      if (fits && low_[b] < height) fits = raise(b, height);
    if (!fits) bump_weight(section);
    return clean(fits);
  }

  // Moves blocks as long as the part to its top; `any`: whether there are such blocks.
  bool lift_long(Span part, bool& any) {
    any = false;
    for (int i = 0; i < live_[part.lower];) {
      const int32_t b = members_[first_[part.lower] + i];
      const Block& block = sections_.blocks[b];
      if (block.hull != part || sections_.spans(b).size() > 1) {
        ++i;
        continue;
      }
      any = true;
      const int64_t offset = top_[part.lower] - block.padded_size;
      if (low_[b] > offset) return false;
      take_out(b, offset);
      for (int s = part.lower; s < part.upper; ++s) {
        set(Kind::kTop, top_, s, offset);
        note(s);
      }
    }
    if (!any) return true;
    const auto fit = [&](std::span<const int32_t> blocks) {
      return std::all_of(blocks.begin(), blocks.end(), [&](int32_t b) {
        return low_[b] <= top_[part.lower] - sections_.blocks[b].size;
      });
    };
    bool fits = fit(left(part.lower));
    for (int s = part.lower + 1; s < part.upper && fits; ++s) fits = fit(starts(s));
    changed_ = part;
    return clean(fits);
  }

  size_t mark() const { return trail_.size(); }

  void undo(size_t mark) {
    while (trail_.size() > mark) {
      const Change change = trail_.back();
      trail_.pop_back();
      switch (change.kind) {
        case Kind::kTakenOut:
          put_back(change.index);
          break;
        case Kind::kPlaced:
          set_floors(change.index, change.before);
          break;
        case Kind::kLow:
          low_[change.index] = change.before;
          note_starts(change.index);
          break;
        case Kind::kFloor:
          floor_[change.index] = change.before;
          note(change.index);
          break;
        case Kind::kFew:
          lowest_[change.index] = {.others = -1};
          break;
        case Kind::kTop:
          top_[change.index] = change.before;
          note(change.index);
          break;
      }
    }
  }

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
  // Returns the number of conflicts in the section, plus 10.
  int64_t conflict_weight(int section) const { return conflict_weight_[section]; }
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
  static uint64_t hash_of(int block) {
    return mix((static_cast<uint64_t>(block) + 1) * 0x9e3779b97f4a7c15);
  }
  void note(int section) { changed_at_[section] = ++clock_; }

  void note_block(int block) {
    ++clock_;
    for (const Span span : sections_.spans(block))
      std::fill(changed_at_.begin() + span.lower, changed_at_.begin() + span.upper, clock_);
  }

  void note_starts(int block) {
    for (const Span span : sections_.spans(block)) note(span.lower);
  }

  void bump_weight(int section) {
    ++conflict_weight_[section];
    note(section);
  }

  int32_t& place_of(int block, int section) { return places_[first_place_[block] + section]; }

  void take_out(int block, int64_t offset) {
    note_block(block);
    const Block& b = sections_.blocks[block];
    set(Kind::kLow, low_, block, offset);
    trail_.push_back({Kind::kTakenOut, block, 0});
    placed_[block] = 1;
    hash_[b.hull.lower] ^= hash_of(block);
    for (int s = b.hull.lower; s + 1 < b.hull.upper; ++s) --links_[s];
    int32_t index = sections_.first_span(block);
    for (const Span span : sections_.spans(block)) {
      take_out_start(span.lower, start_places_[index++]);
      for (int s = span.lower; s < span.upper; ++s) {
        rest_[s] -= b.padded_size;
        int32_t& place = place_of(block, s);
        const int32_t end = --live_[s];
        int32_t* const members = members_.data() + first_[s];
        place_of(members[end], s) = place;
        std::swap(members[place], members[end]);
        place = end;
      }
    }
  }

  void take_out_start(int section, int32_t& place) {
    int32_t* const starts = starts_.data() + first_start_[section];
    const int32_t end = --live_starts_[section];
    const int32_t last = starts[end];
    int32_t index = sections_.first_span(last);
    while (sections_.span(index).lower != section) ++index;
    start_places_[index] = place;
    std::swap(starts[place], starts[end]);
    place = end;
  }

  // The block is still stored after the unplaced ones, because all later changes were undone
  // before.
  void put_back(int block) {
    note_block(block);
    const Block& b = sections_.blocks[block];
    placed_[block] = 0;
    hash_[b.hull.lower] ^= hash_of(block);
    for (int s = b.hull.lower; s + 1 < b.hull.upper; ++s) ++links_[s];
    for (const Span span : sections_.spans(block)) {
      ++live_starts_[span.lower];
      for (int s = span.lower; s < span.upper; ++s) {
        rest_[s] += b.padded_size;
        ++live_[s];
      }
    }
  }

  // in all of its sections
  void set_floors(int block, int64_t height) {
    for (const Span span : sections_.spans(block))
      std::fill(floor_.begin() + span.lower, floor_.begin() + span.upper, height);
  }

  // Raises `offset` to the lowest one at which the block may be placed; false if there is none.
  bool settle(int block, int64_t& offset) const {
    const Block& b = sections_.blocks[block];
    const int64_t highest = top_[b.hull.lower] - b.size;
    return offset <= highest && (sections_.uniform || settle_around(block, offset, highest));
  }

  // Settles a block that is aligned or fixed, or that fixed blocks restrict.
  bool settle_around(int block, int64_t& offset, int64_t highest) const {
    const Block& b = sections_.blocks[block];
    if (b.fixed >= 0) {
      const bool fits = offset <= b.fixed;
      offset = b.fixed;
      return fits && offset <= highest;
    }
    for (bool moved = true; moved && offset <= highest;) {
      moved = false;
      offset = (offset + b.alignment - 1) / b.alignment * b.alignment;
      for (int32_t other : fixed_[block]) {
        const Block& f = sections_.blocks[other];
        if (placed_[other] || offset + b.size <= f.fixed || f.fixed + f.size <= offset) continue;
        offset = f.fixed + f.size;
        moved = true;
      }
    }
    return offset <= highest;
  }

  bool raise(int block, int64_t offset) {
    if (!settle(block, offset)) return false;
    if (offset <= low_[block]) return true;
    set(Kind::kLow, low_, block, offset);
    note_starts(block);
    const Span hull = sections_.blocks[block].hull;
    changed_ = {std::min(changed_.lower, hull.lower), std::max(changed_.upper, hull.upper)};
    lifted_ = true;
    return true;
  }

  // Raises the unplaced blocks of the span: those live at its beginning, and those that begin
  // later.
  bool raise_above(Span span, int64_t height) {
    for (int32_t b : left(span.lower)) {
      if (low_[b] < height && !raise(b, height)) {
        bump_weight(span.lower);
        return false;
      }
    }
    for (int s = span.lower + 1; s < span.upper; ++s) {
      for (int32_t b : starts(s)) {
        if (low_[b] < height && !raise(b, height)) {
          bump_weight(s);
          return false;
        }
      }
    }
    return true;
  }

  // Returns the lowest offset of an unplaced block there, or some offset not above the floor.
  int64_t lowest(int section) {
    LowestCandidates& candidates = lowest_[section];
    int64_t lowest = kWall;
    for (int32_t i = 0; i < candidates.count; ++i) {
      const int32_t b = candidates.blocks[i];
      if (placed_[b] || low_[b] >= lowest) continue;
      lowest = low_[b];
      if (i > 0) std::swap(candidates.blocks[0], candidates.blocks[i]);
      if (lowest <= floor_[section]) return lowest;
    }
    return lowest <= candidates.others ? lowest : find_lowest_candidates(section);
  }

  int64_t find_lowest_candidates(int section) {
    LowestCandidates candidates;
    // Most candidates are those of the previous section; otherwise only new blocks matter.
    if (section > 0) {
      const LowestCandidates& before = lowest_[section - 1];
      candidates.others = before.others;
      for (int32_t i = 0; i < before.count; ++i) {
        const int32_t b = before.blocks[i];
        if (!placed_[b] && sections_.passes(b, section)) add(candidates, b);
      }
      for (int32_t b : starts(section)) add(candidates, b);
    }
    if (section == 0 || candidates.count == 0 || low_[candidates.blocks[0]] > candidates.others) {
      candidates = {};
      for (int32_t b : left(section)) {
        if (candidates.count == kFew && low_[candidates.blocks[kFew - 1]] <= floor_[section]) {
          candidates.others = floor_[section];  // no block is lower than the floor
          break;
        }
        add(candidates, b);
      }
    }
    trail_.push_back({Kind::kFew, section, 0});
    lowest_[section] = candidates;
    return low_[candidates.blocks[0]];
  }

  // Adds a block to the lowest ones; the highest of them may be dropped.
  void add(LowestCandidates& candidates, int32_t block) const {
    const int64_t low = low_[block];
    if (candidates.count == kFew) {
      const int64_t last = low_[candidates.blocks[kFew - 1]];
      candidates.others = std::min(candidates.others, std::max(low, last));
      if (low >= last) return;
    }
    int32_t at = candidates.count < kFew ? candidates.count++ : kFew - 1;
    for (; at > 0 && low_[candidates.blocks[at - 1]] > low; --at)
      candidates.blocks[at] = candidates.blocks[at - 1];
    candidates.blocks[at] = block;
  }

  // Updates the floors under risen blocks if `fits`; returns whether a plan is still possible.
  bool clean(bool fits) {
    for (int s = changed_.lower; s < changed_.upper && fits; ++s) {
      if (live_[s] == 0) continue;
      const int64_t height = lowest(s);
      if (height <= floor_[s]) continue;
      set(Kind::kFloor, floor_, s, height);
      note(s);
      if (sums_ && slack(s) < 0) {
        bump_weight(s);
        fits = false;
      }
    }
    changed_ = {sections_.count(), 0};
    return fits;
  }

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
