// The exact search: is there a plan within a capacity? Private to memory/planners; see search.cc.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/memory/planners/deadline.h"
#include "tessera/memory/planners/floors.h"

namespace tessera::planning {

// Each inference can be switched off, to see what it is worth. None changes what is found true.
struct Inferences {
  bool peeling = true;     // what can be placed whatever the others do waits for them (peel.h)
  bool sums = true;        // what a section still has to take must fit above its floor
  bool splits = true;      // parts of time that no block links any more are solved on their own
  bool ceiling = true;     // a block as long as its part goes to the top of it
  bool duplicates = true;  // of blocks that are alike, the first comes lowest
  bool hatless = true;     // a block that lifts no other need not be tried elsewhere
  bool nogoods = true;     // what failed once is not tried again
  bool restarts = true;    // several strategies in turn, for longer and longer
};

enum class Outcome { kFound, kNone, kSpent };

class Search {
 public:
  Search(const Sections& sections, int64_t capacity, const Inferences& inferences = {},
         const Deadline& deadline = {});

  // Looks for a plan within the capacity, for at most so many decisions; goes on with the next
  // strategy when it is called again.
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

  // A node of the tree: some choice about a part of time.
  struct Frame {
    Span part;
    int32_t parent;        // the frame to go back to when all of its choices fail
    int32_t pending;       // the first of the parts to solve after this one, or -1
    size_t parts;          // how many there were before it
    size_t before;         // mark before it
    size_t mark = 0;       // mark before a choice
    int32_t section = -1;  // that is decided; -1: there is nothing to choose
    int64_t height = 0;    // its floor
    size_t first = 0;      // its choices are choices_[first, last); those from next on are left
    size_t next = 0;
    size_t last = 0;
    bool rise = false;  // whether "nothing stands here" is left as well
  };
  struct Part {
    Span span;
    int32_t parent;
    int32_t next;
  };
  struct Low {  // a stretch of floors that is lower than its neighbours, and a section in it
    Span stretch{0, 0};
    int section = -1;
    double score = 0;
    int64_t slack = 0;
    int64_t at = -1;  // when it was looked at, by the clock of the floors
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
  std::vector<int32_t> rank_;       // per block: which is tried first
  std::vector<Frame> frames_;
  std::vector<Part> parts_;
  std::vector<Span> pieces_;    // of open()
  Low low_;                     // of find_low()
  std::vector<Low> seen_lows_;  // by the first section of their stretch
  std::vector<int32_t> choices_;
  std::vector<std::pair<int64_t, int32_t>> order_;    // of sort_choices()
  std::vector<int64_t> seen_blocks_, seen_sections_;  // when next_height() saw them last
  int64_t now_ = 0;
  std::vector<int32_t> ends_;  // of look_at_low(): how many choices end before a section
  std::vector<Key> failed_;    // a hash table in which the latest wins
  size_t failed_count_ = 0;
  bool possible_ = false;  // as far as the floors tell at the beginning
  size_t turn_ = 0;        // of the strategies
  int64_t turn_nodes_ = 0;
  int64_t nodes_ = 0;
};

}  // namespace tessera::planning
