// The greedy planners: one pass over the buffers, in an order that each has of its own. They are
// what `best` is compared with, and some are where it begins.
#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placer.h"

namespace tessera {
namespace {

using namespace planning;

// One buffer after another, each where `fit` puts it.
class ByOrder : public Placer {
 public:
  using Order = std::vector<int> (*)(const Ready&);
  ByOrder(std::string_view name, std::string_view explanation, Order order, Fit fit)
      : name_(name), explanation_(explanation), order_(order), fit_(fit) {}
  std::string_view name() const override { return name_; }
  std::string_view explanation() const override { return explanation_; }
  Plan plan_until(const Ready& ready, const Deadline& deadline) const override {
    return place(ready, order_(ready), fit_, deadline);
  }

 private:
  const std::string_view name_, explanation_;
  const Order order_;
  const Fit fit_;
};

std::pair<int64_t, int64_t> size_then_life(const Item& item) {
  return {item.size, item.upper - item.lower};
}
std::pair<int64_t, int64_t> life_then_size(const Item& item) {
  return {item.upper - item.lower, item.size};
}

std::vector<int> largest_first(const Ready& ready) { return order_by(ready, size_then_life); }
std::vector<int> longest_first(const Ready& ready) { return order_by(ready, life_then_size); }

// Shares nothing: every buffer stands above all that came before it in the list, whether these are
// still live or not. No plan needs more, so this is the yardstick for what planning saves; and
// where every byte keeps one meaning for the whole run, a wrong lifetime shows.
//
//   address
//     |             cc        three buffers, one after another in time
//     |       bbbbbb
//     | aaaaaa
//     +-----------------> time
class Unshared : public Planner {
 public:
  std::string_view name() const override { return "none"; }
  std::string_view explanation() const override {
    return "shares nothing: every buffer has bytes of its own";
  }

  Plan solve(const Problem& problem) const override {
    Plan plan;
    const auto takes_room = [](const Interval& b) { return b.size > 0 && b.lower < b.upper; };
    for (const Interval& buffer : problem.buffers) {
      if (buffer.offset >= 0 && takes_room(buffer)) {
        plan.bytes = std::max(plan.bytes, buffer.offset + buffer.size);
      }
    }
    for (const Interval& buffer : problem.buffers) {
      int64_t offset = std::max<int64_t>(buffer.offset, 0);
      if (buffer.offset < 0 && takes_room(buffer)) {
        offset = (plan.bytes + buffer.alignment - 1) / buffer.alignment * buffer.alignment;
        plan.bytes = offset + buffer.size;
      }
      plan.offsets.push_back(offset);
    }
    return plan;
  }
};

// What XLA does for its temporary buffers (xla/service/heap_simulator, the global decreasing-size
// best-fit heap, run in two orders of which the lower plan is taken): the spatial order goes by
// size, the temporal one by lifetime, ties by the other. Each buffer goes into the smallest free
// chunk that holds it; the room between the uppermost buffer of its time and the top of the heap so
// far counts as a chunk like any other, which is how it differs from best fit.
//
//   address
//     | 1111                  the top of the heap so far
//     | 1111   (B)
//     | 111122222222          a buffer of 1 on the right goes into chunk B, which is 1 high, not
//     | 1111                  into chunk A, which is 2 high; best fit would take A
//     | 1111   (A)
//     | 111133333333
//     +-----------------> time
class Heap {
 public:
  explicit Heap(const Ready& ready) : ready_(ready) {
    plan_.offsets.assign(ready.items.size(), 0);
    for (int index : ready.fixed) put(index, ready.items[index].fixed);
    for (size_t i = 0; i < ready.items.size(); ++i)
      plan_.offsets[i] = std::max<int64_t>(ready.items[i].fixed, 0);
  }

  Plan fill(const std::vector<int>& order, const Deadline& deadline) && {
    size_t i = 0;
    for (; i < order.size() && !deadline.passed(); ++i) {
      put(order[i], smallest_chunk(ready_.items[order[i]]));
    }
    stack(ready_, order, i, plan_);
    return std::move(plan_);
  }

 private:
  struct Block {
    int64_t offset;
    int64_t end;
    int32_t lower;
    int32_t upper;
    int index;
  };

  void put(int index, int64_t offset) {
    const Item& item = ready_.items[index];
    const int64_t end = offset + item.size;
    const auto after = std::upper_bound(
        blocks_.begin(), blocks_.end(), offset,
        [](int64_t address, const Block& block) { return address < block.offset; });
    blocks_.insert(after, {offset, end, item.lower, item.upper, index});
    plan_.offsets[index] = offset;
    plan_.bytes = std::max(plan_.bytes, end);
  }

  int64_t smallest_chunk(const Item& item) const {
    const auto aligned = [&](int64_t at) {
      return (at + item.alignment - 1) / item.alignment * item.alignment;
    };
    int64_t free = 0, chosen = -1, smallest = INT64_MAX;
    const auto consider = [&](int64_t end) {
      if (end - free < item.size) return;
      const int64_t begin = aligned(free);
      if (end - begin < item.size || end - begin >= smallest) return;
      smallest = end - begin;
      chosen = begin;
    };
    for (const Block& block : blocks_) {
      if (item.lower >= block.upper || block.lower >= item.upper) continue;
      if (!ready_.meet(item, ready_.items[block.index])) continue;
      consider(block.offset);
      free = std::max(free, block.end);
    }
    consider(plan_.bytes);
    return chosen >= 0 ? chosen : aligned(free);
  }

  const Ready& ready_;
  std::vector<Block> blocks_;  // those placed, by offset
  Plan plan_;
};

class Xla : public Placer {
 public:
  std::string_view name() const override { return "xla"; }
  std::string_view explanation() const override {
    return "XLA's: best fit by size and by lifetime, the lower of the two";
  }

  Plan plan_until(const Ready& ready, const Deadline& deadline) const override {
    Plan lower = Heap(ready).fill(largest_first(ready), deadline);
    Plan other = Heap(ready).fill(longest_first(ready), deadline);
    return other.bytes < lower.bytes ? other : lower;
  }
};

}  // namespace

const Planner& none_planner() {
  static const Unshared planner;
  return planner;
}

const Placer& xla_planner() {
  static const Xla planner;
  return planner;
}

// What an eager allocator that always takes the lowest free address ends up with: the buffers are
// placed in the order in which they begin to live, and none knows what comes after it. Holes are
// left where short-lived buffers stood below long-lived ones, and a large late one goes on top.
//
//   address
//     |          cccccc
//     |          cccccc       c, 2 high, does not fit the hole of 1 that a left: b was put above
//     |    bbbbbbbbbbbb       a when nobody had heard of c yet
//     | aaaaaa
//     +-----------------> time
const Planner& in_order_planner() {
  static const ByOrder planner(
      "in_order",
      "in the order of allocation, each at the lowest free address, as an eager allocator would",
      [](const Ready& ready) {
        return order_by(ready, [](const Item& item) { return -item.lower; });
      },
      Fit::kLowest);
  return planner;
}

// By size, the largest first: the common greedy planner of inference engines, there called greedy
// by size. Large buffers find room while there is much of it and small ones fill what is left. Each
// goes to the lowest address at which it is free for the whole of its life (first fit); of equal
// sizes the one that lives longer goes first.
//
//   address
//     | 22222222
//     | 22222222              1 is 3 high, 2 is 2 high and lives with 1, so it stands above;
//     | 11111                 3 is 1 high and finds room at the bottom, once 1 is gone
//     | 11111
//     | 11111  3333
//     +-----------------> time
const Planner& first_fit_planner() {
  static const ByOrder planner("first_fit",
                               "the largest first, each at the lowest address at which it fits",
                               largest_first, Fit::kLowest);
  return planner;
}

// By area, size times lifetime, the largest first, each at the lowest address at which it fits.
// What covers most of the picture is hardest to bring in later, be it high or long; TelaMalloc
// (Maas et al., ASPLOS 2023) takes area as one of its orders for the same reason. Times are counted
// as ranks among all beginnings and ends, so that a long wait in which nothing happens weighs
// nothing.
//
//   address
//     | 22222 333             1: 2 high, 12 long, area 24
//     | 22222 333             2: 3 high,  5 long, area 15
//     | 22222 333             3: 3 high,  3 long, area  9; by size both would go before 1
//     | 111111111111
//     | 111111111111
//     +-----------------> time
const Planner& first_fit_area_planner() {
  // As a float, because a size times a time need not fit an integer.
  const auto by_area = [](const Ready& ready) {
    return order_by(ready, [](const Item& item) {
      return static_cast<double>(item.size) * (item.upper - item.lower);
    });
  };
  static const ByOrder planner(
      "first_fit_area",
      "the largest size x lifetime first, each at the lowest address at which it fits", by_area,
      Fit::kLowest);
  return planner;
}

// By lifetime, the longest first, each at the lowest address at which it fits; of equal lifetimes
// the larger goes first. What lives throughout sinks to the bottom and out of the way, and short
// buffers come and go above it. Good for training, where weights and what backward needs live long;
// bad where one large buffer lives shortly and finds no hole any more.
//
//   address
//     |        44
//     |   333333333           who lives longer stands lower
//     | 2222222222222
//     | 1111111111111111
//     +-----------------> time
const Planner& first_fit_lifetime_planner() {
  static const ByOrder planner(
      "first_fit_lifetime", "the longest-lived first, each at the lowest address at which it fits",
      longest_first, Fit::kLowest);
  return planner;
}

// By size, the largest first, each in the tightest hole: of all free ranges between the buffers
// that live at the same time it takes the one that it leaves the least of (best fit), and the top
// only when there is none. Wide holes stay wide for what is still to come.
//
//   address
//     | #####
//     |  (3)                  a buffer of 1 goes here, the hole of 1 below the topmost block,
//     | #####                 not into the hole of 2 further down, where first fit puts it
//     |
//     |
//     | #####
//     +-----------------> time
const Planner& best_fit_planner() {
  static const ByOrder planner("best_fit", "the largest first, each in the hole that it fills best",
                               largest_first, Fit::kTightest);
  return planner;
}

// What TensorFlow Lite's arena planner does (tensorflow/lite/arena_planner.cc and
// simple_memory_arena.cc): tensors that live for the whole run go to the beginning of the arena in
// the order of the list, so that they cannot cut it into pieces; then the rest by size, the largest
// first, equals in the order in which they are allocated; each in the tightest gap, or on top.
//
//   address
//     |      222
//     | 3333 222  444         1 lives throughout; 2, 3 and 4 follow by size, though each of them
//     | 3333 222  444         is larger than 1
//     | 1111111111111111
//     +-----------------> time
const Placer& tflite_planner() {
  const auto throughout_first = [](const Ready& ready) {
    const auto last = static_cast<int32_t>(ready.load.size()) - 1;
    return order_by(ready, [last](const Item& item) {
      const bool throughout = item.lower == 0 && item.upper == last;
      return throughout ? std::tuple(true, int64_t{0}, 0)
                        : std::tuple(false, item.size, -item.lower);
    });
  };
  static const ByOrder planner(
      "tflite", "TensorFlow Lite's: what lives throughout first, then by size in the tightest gap",
      throughout_first, Fit::kTightest);
  return planner;
}

}  // namespace tessera
