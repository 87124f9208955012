// Search: the exact search for a plan within a capacity. Private to memory/planners.
//
// Builds plans from the bottom. At a local low of the floors it picks a section and decides what is
// placed on its floor: one of the blocks that fit, or nothing. If nothing is placed, the floor
// rises to where the next block could be placed.
//
//   floors   |  ####      Sections 0 and 1 are a low: only a block that is live within them can be
//            |  ####  ##  placed on the floor there. Section 6 is another low. A low with a single
//            +----------- choice is decided first.
//    section  012345678
//
// Any plan can be pushed down until each block is on the ground or on another one, and the choices
// lead to every such plan; if all fail, there is none at this capacity. Sections, floors, dominance
// and decomposition are ideas of MiniMalloc (Moffitt 2023), which decides what comes next in all of
// time. This search decides for one section, so that a contradiction shows near its cause. It
// remembers failures across several strategies that take turns (their choice of section as in
// Boussemart et al. 2004), each for longer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/memory/planners/exact.h"
#include "tessera/memory/planners/floors.h"

namespace tessera::planning {

constexpr size_t kMaxFailed = size_t{1} << 20;
constexpr int64_t kNodesPerLook = 8;  // between looks at the clock

enum class Outcome { kFound, kNone, kSpent };

class Search {
 public:
  Search(const Sections& sections, int64_t capacity, const Inferences& inferences,
         const Deadline& deadline)
      : sections_(sections),
        use_(inferences),
        deadline_(deadline),
        floors_(sections, inferences.sums),
        peak_load_(sections.blocks.size()),
        rank_(sections.blocks.size()),
        seen_blocks_(sections.blocks.size()),
        seen_sections_(sections.count()),
        ends_(sections.count() + 1),
        failed_(size_t{1} << 8),  // most searches end before it fills
        possible_(floors_.reset(capacity)) {
    for (int s = 0; s < sections.count(); ++s) {
      int64_t live = 0;
      for (int32_t b : sections.members(s)) live += sections.blocks[b].padded_size;
      for (int32_t b : sections.members(s)) peak_load_[b] = std::max(peak_load_[b], live);
    }
  }

  // Searches for a plan within the capacity, for at most `nodes` decisions. A further call
  // continues with the next strategy.
  Outcome run(int64_t nodes) {
    if (!possible_) return Outcome::kNone;
    if (sections_.count() == 0) return Outcome::kFound;
    const int64_t end = nodes_ + nodes;
    if (turn_nodes_ == 0) turn_nodes_ = 2 * std::ssize(sections_.blocks) + 64;
    while (true) {
      const Strategy& strategy = kStrategies[turn_ % std::size(kStrategies)];
      order_blocks(strategy.block, static_cast<int64_t>(turn_ / std::size(kStrategies)));
      const int64_t limit = use_.restarts ? turn_nodes_ : nodes;
      const Outcome outcome = descend(strategy, std::min(limit, end - nodes_));
      if (outcome != Outcome::kSpent) return outcome;
      if (++turn_ % std::size(kStrategies) == 0) turn_nodes_ += turn_nodes_ / 8;
      if (nodes_ >= end || deadline_.passed()) return outcome;
    }
  }

  const std::vector<int64_t>& offsets() const { return floors_.offsets(); }  // after kFound
  int64_t nodes() const { return nodes_; }  // decisions in all runs

 private:
  enum class SectionRule { kFewest, kBlamed, kTightest };
  enum class BlockRule { kLong, kCrowded, kLarge };
  enum class EdgeRule { kNone, kEdges, kLevel };
  struct Strategy {
    SectionRule section;
    BlockRule block;
    EdgeRule edge;
  };
  static constexpr Strategy kStrategies[] = {
      {SectionRule::kTightest, BlockRule::kLong, EdgeRule::kEdges},
      {SectionRule::kBlamed, BlockRule::kLong, EdgeRule::kNone},
      {SectionRule::kBlamed, BlockRule::kLarge, EdgeRule::kLevel},
      {SectionRule::kBlamed, BlockRule::kCrowded, EdgeRule::kLevel},
      {SectionRule::kBlamed, BlockRule::kLarge, EdgeRule::kNone},
      {SectionRule::kFewest, BlockRule::kCrowded, EdgeRule::kEdges},
  };

  struct Key {
    uint64_t first = 0;
    uint64_t second = 0;
    bool operator==(const Key&) const = default;
  };

  // A node of the search tree: a choice in a part of time.
  struct Frame {
    Span part;
    int32_t parent;        // the frame to return to if all choices of this one fail
    int32_t pending;       // the first of the parts to solve after this one, or -1
    size_t parts;          // number of parts before this frame
    size_t before;         // mark before this frame
    size_t mark = 0;       // mark before a choice
    int32_t section = -1;  // the section to decide; -1: nothing to choose
    int64_t height = 0;    // floor of the section
    size_t first = 0;      // the choices are choices_[first, last); untried from next on
    size_t next = 0;
    size_t last = 0;
    bool rise = false;  // whether "nothing is placed here" is untried
  };
  struct Part {
    Span span;
    int32_t parent;
    int32_t next;
  };
  struct Low {  // a stretch of floors lower than its neighbours, and a section in it
    Span stretch{0, 0};
    int section = -1;
    double score = 0;
    int64_t slack = 0;
    int64_t at = -1;  // the clock of the floors when this was computed
    bool before(const Low& other) const {
      return score != other.score ? score < other.score : slack < other.slack;
    }
  };

  // Ranks the blocks. After the first round keys are blurred, so that every round tries a new
  // order.
  void order_blocks(BlockRule rule, int64_t round) {
    const std::vector<Block>& blocks = sections_.blocks;
    std::vector<std::tuple<double, double, double, int32_t>> keys(blocks.size());
    for (size_t b = 0; b < blocks.size(); ++b) {
      const uint64_t random = mix((b + 1) * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(round));
      const double blur = round == 0 ? 1 : 0.5 + static_cast<double>(random >> 11) * 0x1p-53;
      const double length = blur * (blocks[b].hull.upper - blocks[b].hull.lower);
      const double size = blur * static_cast<double>(blocks[b].size);
      const double peak_load = blur * static_cast<double>(peak_load_[b]);
      const int32_t index = -static_cast<int32_t>(b);  // ties: the first
      if (rule == BlockRule::kLong) keys[b] = {length, size, peak_load, index};
      if (rule == BlockRule::kCrowded) keys[b] = {peak_load, length * size, length, index};
      if (rule == BlockRule::kLarge) keys[b] = {size, length, peak_load, index};
    }
    std::sort(keys.begin(), keys.end(), std::greater<>());
    for (size_t i = 0; i < keys.size(); ++i) rank_[-std::get<3>(keys[i])] = static_cast<int32_t>(i);
  }

  Outcome descend(const Strategy& strategy, int64_t limit) {
    strategy_ = strategy;
    frames_.clear();
    parts_.clear();
    choices_.clear();
    floors_.undo(0);
    seen_lows_.assign(sections_.count(), {});
    const int64_t end = nodes_ + limit;
    const Span all{0, sections_.count()};
    bool good = open(all, -1, -1, all);
    while (true) {
      if (nodes_ >= end) return Outcome::kSpent;
      if (nodes_ % kNodesPerLook == 0 && deadline_.passed()) return Outcome::kSpent;
      if (!good) {
        if (frames_.back().parent < 0) return Outcome::kNone;
        good = back_up();
      } else if (frames_.back().section >= 0) {
        good = advance();
      } else if (const int32_t pending = frames_.back().pending; pending >= 0) {
        const Part part = parts_[pending];
        good = open(part.span, part.parent, part.next, {0, 0});
      } else {
        return Outcome::kFound;
      }
    }
  }

  // Opens a part of time, which is split if `changed` cut it; returns false if it cannot be solved.
  bool open(Span part, int32_t parent, int32_t pending, Span changed) {
    const int32_t self = static_cast<int32_t>(frames_.size());
    const size_t choices = choices_.size();
    frames_.push_back({.part = part,
                       .parent = parent,
                       .pending = pending,
                       .parts = parts_.size(),
                       .before = floors_.mark(),
                       .first = choices,
                       .next = choices,
                       .last = choices});
    const bool fits = cut_and_lift(part, changed);
    Frame& frame = frames_.back();
    frame.mark = floors_.mark();
    if (!fits) return false;
    if (pieces_.size() == 1) {
      frame.part = pieces_[0];
      return choose(frame);
    }
    // The longest piece comes first, because it is the likeliest to fail.
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Span& a, const Span& b) {
      return a.upper - a.lower < b.upper - b.lower;
    });
    for (const Span& piece : pieces_) {
      parts_.push_back({piece, self, frame.pending});
      frame.pending = static_cast<int32_t>(parts_.size()) - 1;
    }
    return true;
  }

  // Finds the pieces of a part; lifting the long blocks of a piece may cut it further.
  bool cut_and_lift(Span part, Span changed) {
    pieces_.clear();
    if (is_cut(changed)) {
      cut(part);
    } else {
      pieces_.push_back(part);
    }
    if (!use_.ceiling || !sections_.uniform) return true;
    for (size_t i = 0; i < pieces_.size();) {
      const Span piece = pieces_[i];
      bool any = false;
      // Otherwise rounding may leave space at the top that only some blocks can use.
      if (floors_.top(piece.lower) % sections_.unit == 0 && !floors_.lift_long(piece, any))
        return false;
      if (any) {
        pieces_.erase(pieces_.begin() + i);
        cut(piece);
      } else {
        ++i;
      }
    }
    return true;
  }

  // Returns whether a part that was whole may no longer be one.
  bool is_cut(Span changed) const {
    for (int32_t s = changed.lower; s < changed.upper; ++s)
      if (!floors_.linked(s)) return true;
    return false;
  }

  void cut(Span part) {
    int32_t from = part.lower;
    for (int32_t s = part.lower; s < part.upper; ++s) {
      if (s + 1 < part.upper && (!use_.splits || floors_.linked(s))) continue;
      while (from <= s && floors_.empty(from)) ++from;
      if (from <= s) pieces_.push_back({from, s + 1});
      from = s + 1;
    }
  }

  // Picks the section to decide and lists the blocks that fit on its floor; returns false if the
  // part is known to fail.
  bool choose(Frame& frame) {
    ++nodes_;
    if (use_.nogoods && failed_count_ > 0 && has_failed(key_of(frame.part))) return false;
    find_low(frame.part);
    const Low& low = low_;
    frame.section = low.section;
    frame.height = floors_.floor(low.section);
    frame.rise = low.slack > 0 || !use_.sums;
    for (int32_t b : floors_.left(low.section))
      if (allowed(b, frame.height)) choices_.push_back(b);
    frame.last = choices_.size();
    sort_choices(frame, low.stretch);
    return true;
  }

  // Finds the section with the fewest choices by weight, in a stretch lower than its neighbours.
  void find_low(Span part) {
    low_ = {};
    // A block with gaps may reach over a wall to another low, so only the lowest low is used then.
    int64_t highest = kWall - 1;
    const auto floor = [&](int s) { return floors_.empty(s) ? kWall : floors_.floor(s); };
    for (int s = part.lower; s < part.upper && sections_.gaps; ++s)
      highest = std::min(highest, floor(s));
    int64_t before = kWall;
    for (int s = part.lower; s < part.upper;) {
      const int64_t height = floor(s);
      int64_t changed = floors_.changed(s);
      int end = s + 1;
      for (; end < part.upper && floor(end) == height; ++end)
        changed = std::max(changed, floors_.changed(end));
      const int64_t after = end < part.upper ? floor(end) : kWall;
      if (height <= highest && height < before && height < after) {
        Low& low = seen_lows_[s];
        if (low.stretch != Span{s, end} || low.at < changed) low = look_at_low({s, end}, height);
        if (low_.section < 0 || low.before(low_)) low_ = low;
      }
      before = height;
      s = end;
    }
  }

  // Finds the best section of a stretch by its choices: the blocks there that fit on the floor.
  Low look_at_low(Span stretch, int64_t height) {
    Low best;
    int64_t choices = 0;
    for (int s = stretch.lower; s < stretch.upper; ++s) {
      choices -= std::exchange(ends_[s], 0);
      for (int32_t b : floors_.starts(s)) {
        if (floors_.low(b) != height) continue;
        ++choices;
        int span = sections_.first_span(b);
        while (sections_.span(span).lower != s) ++span;
        ++ends_[sections_.span(span).upper];
      }
      const int64_t slack = floors_.slack(s);
      // Placing nothing there is a choice, too.
      double score = static_cast<double>(choices + (slack > 0 ? 1 : 0));
      if (strategy_.section == SectionRule::kTightest) {
        score *= static_cast<double>(slack) + static_cast<double>(floors_.top(s)) / 64;
      } else if (strategy_.section == SectionRule::kBlamed) {
        score /= static_cast<double>(floors_.conflict_weight(s));
      }
      const Low low{stretch, s, score, slack, floors_.clock()};
      if (best.section < 0 || low.before(best)) best = low;
    }
    ends_[stretch.upper] = 0;
    return best;
  }

  bool allowed(int block, int64_t height) const {
    const int32_t duplicate = sections_.blocks[block].duplicate_of;
    return floors_.low(block) == height &&
           (!use_.duplicates || duplicate < 0 || floors_.placed(duplicate));
  }

  // Sorts the choices: if the strategy says so, those at the edges of the stretch first; then by
  // rank.
  void sort_choices(const Frame& frame, Span stretch) {
    const auto wall = [&](int s) {
      const bool outside = s < frame.part.lower || s >= frame.part.upper || floors_.empty(s);
      return outside ? kWall : floors_.floor(s);
    };
    const int64_t left = wall(stretch.lower - 1), right = wall(stretch.upper);
    const auto edges = [&](int32_t b) {
      if (strategy_.edge == EdgeRule::kNone) return 0;
      const Span hull = sections_.blocks[b].hull;
      const int64_t level = strategy_.edge == EdgeRule::kLevel
                                ? frame.height + sections_.blocks[b].padded_size
                                : kWall - 1;
      return (hull.lower == stretch.lower ? 1 + 2 * (level == left) : 0) +
             (hull.upper == stretch.upper ? 1 + 2 * (level == right) : 0);
    };
    // One number per choice, so that comparisons compute nothing.
    constexpr int kMaxEdges = 6;
    order_.clear();
    for (size_t i = frame.first; i < choices_.size(); ++i) {
      const int32_t b = choices_[i];
      order_.push_back({static_cast<int64_t>(kMaxEdges - edges(b)) << 32 | rank_[b], b});
    }
    std::sort(order_.begin(), order_.end());
    for (size_t i = 0; i < order_.size(); ++i) choices_[frame.first + i] = order_[i].second;
  }

  // Tries the next choice of the last frame; returns false if there is none.
  bool advance() {
    Frame& frame = frames_.back();
    const int32_t self = static_cast<int32_t>(frames_.size()) - 1;
    const Span part = frame.part;
    const int32_t pending = frame.pending;
    if (frame.next < frame.last) {
      const int32_t block = choices_[frame.next++];
      const bool fits = floors_.place(block, frame.height);
      if (use_.hatless && !floors_.lifted()) {
        // In any plan this block could be moved here, so no other choice is needed.
        frame.next = frame.last;
        frame.rise = false;
      }
      if (fits) return open(part, self, pending, sections_.blocks[block].hull);
    } else if (frame.rise) {
      frame.rise = false;
      const int64_t height = next_height(frame);
      if (height != kWall && floors_.rise(frame.section, height))
        return open(part, self, pending, {0, 0});
    } else {
      if (use_.nogoods) remember(key_of(part));
      frame.section = -1;
      return false;
    }
    floors_.undo(frame.mark);
    return true;
  }

  // Returns to the frame that opened the failed part; false if that frame has failed as well.
  bool back_up() {
    const int32_t parent = frames_.back().parent;
    const Frame& child = frames_[parent + 1];
    floors_.undo(child.before);
    parts_.resize(child.parts);
    choices_.resize(child.first);
    frames_.resize(parent + 1);
    floors_.undo(frames_.back().mark);
    return frames_.back().section >= 0;
  }

  // Returns where the next block could be placed if none is placed on the floor of the section. A
  // block that could be rises only if another one goes below it, which is not live in this section.
  int64_t next_height(const Frame& frame) {
    ++now_;
    int64_t height = kWall;
    const std::span<const int32_t> here = floors_.left(frame.section);
    for (int32_t b : here) seen_blocks_[b] = now_;
    const auto see = [&](std::span<const int32_t> blocks) {
      for (int32_t c : blocks) {
        if (seen_blocks_[c] == now_) continue;
        height = std::min(height, floors_.low(c) + sections_.blocks[c].padded_size);
      }
    };
    for (int32_t b : here) {
      if (floors_.low(b) > frame.height) {
        height = std::min(height, floors_.low(b));
        continue;
      }
      for (const Span span : sections_.spans(b)) {
        for (int s = span.lower; s < span.upper; ++s) {
          if (seen_sections_[s] == now_) continue;
          seen_sections_[s] = now_;
          see(s == span.lower ? floors_.left(s) : floors_.starts(s));
        }
      }
    }
    return height;
  }

  // Hashes the unplaced blocks of a part and the floors under it, which decide whether the part can
  // be solved.
  Key key_of(Span part) const {
    Key key{static_cast<uint64_t>(floors_.top(part.lower)), static_cast<uint64_t>(part.upper)};
    for (int s = part.lower; s < part.upper; ++s) {
      if (floors_.empty(s)) continue;
      const uint64_t floor =
          static_cast<uint64_t>(floors_.floor(s)) * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(s);
      key.first = mix(key.first ^ floor ^ floors_.hash(s));
      key.second =
          (key.second + floor) * 0xd1342543de82ef95 + (floors_.hash(s) ^ (key.second >> 29));
    }
    return key;
  }

  bool has_failed(const Key& key) const { return failed_[key.first & (failed_.size() - 1)] == key; }

  void remember(const Key& key) {
    if (++failed_count_ > failed_.size() / 2 && failed_.size() < kMaxFailed) {
      std::vector<Key> larger(4 * failed_.size());
      for (const Key& old : failed_) larger[old.first & (larger.size() - 1)] = old;
      failed_.swap(larger);
    }
    failed_[key.first & (failed_.size() - 1)] = key;
  }

  const Sections& sections_;
  const Inferences use_;
  const Deadline deadline_;
  Floors floors_;
  Strategy strategy_{};
  std::vector<int64_t> peak_load_;  // per block: the most bytes live at one of its sections
  std::vector<int32_t> rank_;       // per block: position in the order of trials
  std::vector<Frame> frames_;
  std::vector<Part> parts_;
  std::vector<Span> pieces_;    // scratch of open()
  Low low_;                     // result of find_low()
  std::vector<Low> seen_lows_;  // by the first section of their stretch
  std::vector<int32_t> choices_;
  std::vector<std::pair<int64_t, int32_t>> order_;    // scratch of sort_choices()
  std::vector<int64_t> seen_blocks_, seen_sections_;  // last visits of next_height()
  int64_t now_ = 0;
  std::vector<int32_t> ends_;  // scratch of look_at_low(): choices that end before a section
  std::vector<Key> failed_;    // a hash table in which the latest key wins
  size_t failed_count_ = 0;
  bool possible_ = false;  // false if the floors exclude any plan at the beginning
  size_t turn_ = 0;        // strategies begun so far
  int64_t turn_nodes_ = 0;
  int64_t nodes_ = 0;
};

}  // namespace tessera::planning
