// Search: the exact search for a plan within a capacity (search.cc). Private to memory/planners.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/memory/planners/deadline.h"
#include "tessera/memory/planners/floors.h"

namespace tessera::planning {

// Inferences, which can be switched off to measure their worth. None changes what can be proved.
struct Inferences {
  bool peeling = true;     // leaves out buffers that fit in any case (peel.h)
  bool sums = true;        // requires that a section's unplaced blocks fit above its floor
  bool splits = true;      // solves separately the parts of time that no block links
  bool ceiling = true;     // places a block as long as its part at the top of the part
  bool duplicates = true;  // places the first of equal blocks lowest (symmetry breaking)
  bool hatless = true;     // prunes alternatives to a block that lifts no other (MiniMalloc)
  bool nogoods = true;     // prunes states that have failed before
  bool restarts = true;    // alternates several strategies, for longer and longer
};

enum class Outcome { kFound, kNone, kSpent };

class Search {
 public:
  Search(const Sections& sections, int64_t capacity, const Inferences& inferences = {},
         const Deadline& deadline = {});

  // Searches for a plan within the capacity, for at most `nodes` decisions. A further call
  // continues with the next strategy.
  Outcome run(int64_t nodes);

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
  static const Strategy kStrategies[];

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

  void order_blocks(BlockRule rule, int64_t round);
  Outcome descend(const Strategy& strategy, int64_t limit);
  bool open(Span part, int32_t parent, int32_t pending, Span changed);
  bool cut_and_lift(Span part, Span changed);
  bool is_cut(Span changed) const;
  void cut(Span part);
  bool choose(Frame& frame);
  void find_low(Span part);
  Low look_at_low(Span stretch, int64_t height);
  bool allowed(int block, int64_t height) const;
  void sort_choices(const Frame& frame, Span stretch);
  bool advance();
  bool back_up();
  int64_t next_height(const Frame& frame);

  Key key_of(Span part) const;
  bool has_failed(const Key& key) const;
  void remember(const Key& key);

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
