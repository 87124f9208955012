// The planners that place the buffers one after another in a fixed order.
#include <tuple>
#include <utility>

#include "tessera/memory/planners/list.h"

namespace tessera {
namespace {

using namespace planning;

// Places by descending key, where equals keep the problem's order.
template <class Key>
class Greedy final : public Placer {
 public:
  Greedy(std::string_view name, std::string_view explanation, Fit fit, Key key)
      : name_(name), explanation_(explanation), fit_(fit), key_(key) {}

  std::string_view name() const override { return name_; }
  std::string_view explanation() const override { return explanation_; }
  Plan plan_until(const PreparedProblem& prepared, const Deadline& deadline) const override {
    return place(prepared,
                 order_by(prepared, [&](const Item& item) { return key_(prepared, item); }), fit_,
                 deadline);
  }

 private:
  const std::string_view name_, explanation_;
  const Fit fit_;
  const Key key_;
};

constexpr auto size_then_lifetime = [](const PreparedProblem&, const Item& item) {
  return std::pair(item.size, item.upper - item.lower);
};

}  // namespace

// in_order is what an eager allocator that always takes the lowest free address ends up with: the
// buffers are placed in the order in which they begin to live, and none knows what comes after it.
// Holes are left where short-lived buffers stood below long-lived ones, and a large late one goes
// on top.
//
//   address
//     |          cccccc
//     |          cccccc       c, 2 high, does not fit the hole of 1 that a left: b was put above
//     |    bbbbbbbbbbbb       a when nobody had heard of c yet
//     | aaaaaa
//     +-----------------> time
const Planner& in_order_planner() {
  static const Greedy planner(
      "in_order",
      "in the order of allocation, each at the lowest free address, as an eager allocator would",
      Fit::kLowest, [](const PreparedProblem&, const Item& item) { return -item.lower; });
  return planner;
}

// first_fit places by size, the largest first: the common greedy planner of inference engines,
// there called greedy by size. Large buffers find room while there is much of it and small ones
// fill what is left. Each goes to the lowest address at which it is free for the whole of its life
// (first fit); of equal sizes the one that lives longer goes first.
//
//   address
//     | 22222222
//     | 22222222              1 is 3 high, 2 is 2 high and lives with 1, so it stands above;
//     | 11111                 3 is 1 high and finds room at the bottom, once 1 is gone
//     | 11111
//     | 11111  3333
//     +-----------------> time
const Planner& first_fit_planner() {
  static const Greedy planner("first_fit",
                              "the largest first, each at the lowest address at which it fits",
                              Fit::kLowest, size_then_lifetime);
  return planner;
}

// first_fit_area places by area, size times lifetime, the largest first, each at the lowest address
// at which it fits. What covers most of the picture is hardest to bring in later, be it high or
// long; TelaMalloc (Maas et al., ASPLOS 2023) takes area as one of its orders for the same reason.
// Times are counted as ranks among all beginnings and ends, so that a long wait in which nothing
// happens weighs nothing.
//
//   address
//     | 22222 333             1: 2 high, 12 long, area 24
//     | 22222 333             2: 3 high,  5 long, area 15
//     | 22222 333             3: 3 high,  3 long, area  9; by size both would go before 1
//     | 111111111111
//     | 111111111111
//     +-----------------> time
const Planner& first_fit_area_planner() {
  static const Greedy planner(
      "first_fit_area",
      "the largest size x lifetime first, each at the lowest address at which it fits",
      Fit::kLowest, [](const PreparedProblem&, const Item& item) {
        // A size times a time need not fit an integer.
        return static_cast<double>(item.size) * (item.upper - item.lower);
      });
  return planner;
}

// first_fit_lifetime places by lifetime, the longest first, each at the lowest address at which it
// fits; of equal lifetimes the larger goes first. What lives throughout sinks to the bottom and out
// of the way, and short buffers come and go above it. Good for training, where weights and what
// backward needs live long; bad where one large buffer lives shortly and finds no hole any more.
//
//   address
//     |        44
//     |   333333333           who lives longer stands lower
//     | 2222222222222
//     | 1111111111111111
//     +-----------------> time
const Planner& first_fit_lifetime_planner() {
  static const Greedy planner(
      "first_fit_lifetime", "the longest-lived first, each at the lowest address at which it fits",
      Fit::kLowest, [](const PreparedProblem&, const Item& item) {
        return std::pair(item.upper - item.lower, item.size);
      });
  return planner;
}

// best_fit places by size, the largest first, each in the tightest hole: of all free ranges between
// the buffers that live at the same time it takes the one that it leaves the least of (best fit),
// and the top only when there is none. Wide holes stay wide for what is still to come.
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
  static const Greedy planner("best_fit", "the largest first, each in the hole that it fills best",
                              Fit::kTightest, size_then_lifetime);
  return planner;
}

// tflite does what TensorFlow Lite's arena planner does (tensorflow/lite/arena_planner.cc and
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
const planning::Placer& tflite_planner() {
  static const Greedy planner(
      "tflite", "TensorFlow Lite's: what lives throughout first, then by size in the tightest gap",
      Fit::kTightest, [](const PreparedProblem& prepared, const Item& item) {
        const auto last = static_cast<int32_t>(prepared.load.size()) - 1;
        const bool throughout = item.lower == 0 && item.upper == last;
        return throughout ? std::tuple(true, int64_t{0}, 0)
                          : std::tuple(false, item.size, -item.lower);
      });
  return planner;
}

}  // namespace tessera
