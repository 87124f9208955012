// Greedy planners: place the buffers one after another in a fixed order.
#include <tuple>

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {

// none shares nothing: every buffer is placed above all earlier ones in the list, live or not. No
// plan needs more, so it is the baseline for what planning saves. Every byte has one meaning for
// the whole run, which exposes a wrong lifetime.
//
//   address
//     |             cc        three buffers, one after another in time
//     |       bbbbbb
//     | aaaaaa
//     +-----------------> time
Plan none(const PreparedProblem& prepared) {
  Plan plan = place(prepared, {}, Fit::kLowest);
  stack(prepared, prepared.movable, 0, plan);
  return plan;
}

// in_order is the result of an eager allocator that always takes the lowest free address: buffers
// are placed in the order in which they become live, without regard to later ones. Short-lived
// buffers leave holes below long-lived ones, and a large late buffer goes on top.
//
//   address
//     |          cccccc
//     |          cccccc       c, 2 high, does not fit the hole of 1 that a left: b was placed above
//     |    bbbbbbbbbbbb       a, before c was known
//     | aaaaaa
//     +-----------------> time
Plan in_order(const PreparedProblem& prepared) {
  return place(prepared, order_by(prepared, [](const Item& item) { return -item.lower; }),
               Fit::kLowest);
}

// first_fit places by size, the largest first: the common greedy planner of inference engines,
// there called greedy by size. Large buffers are placed while there is much free memory, small ones
// fill the rest. Each goes to the lowest address that is free for its whole lifetime (first fit);
// of equal sizes the longer-lived one goes first.
//
//   address
//     | 22222222
//     | 22222222              1 is 3 high; 2 is 2 high and overlaps 1 in time, so it goes above;
//     | 11111                 3 is 1 high and fits at the bottom, once 1 is freed
//     | 11111
//     | 11111  3333
//     +-----------------> time
Plan first_fit(const PreparedProblem& prepared) {
  return place(prepared, order_by(prepared, size_first), Fit::kLowest);
}

// first_fit_area places by area, size times lifetime, the largest first, each at the lowest address
// at which it fits. Buffers that cover most of the drawing, high or long, are the hardest to place
// late. TelaMalloc (Maas et al., ASPLOS 2023) takes area as one of its orders for the same reason.
// Times are ranks among all beginnings and ends, so that a long time without events has no weight.
//
//   address
//     | 22222 333             1: 2 high, 12 long, area 24
//     | 22222 333             2: 3 high,  5 long, area 15
//     | 22222 333             3: 3 high,  3 long, area  9; by size both would go before 1
//     | 111111111111
//     | 111111111111
//     +-----------------> time
Plan first_fit_area(const PreparedProblem& prepared) {
  return place(prepared, order_by(prepared, [](const Item& item) { return item.area(); }),
               Fit::kLowest);
}

// first_fit_lifetime places by lifetime, the longest first, each at the lowest address at which it
// fits; of equal lifetimes the larger goes first. Buffers that are live throughout go to the
// bottom, short-lived ones above them. Good for training, where weights and saved activations are
// long-lived; bad if a large short-lived buffer finds no hole any more.
//
//   address
//     |        44
//     |   333333333           the longer the lifetime, the lower the offset
//     | 2222222222222
//     | 1111111111111111
//     +-----------------> time
Plan first_fit_lifetime(const PreparedProblem& prepared) {
  return place(prepared, order_by(prepared, lifetime_first), Fit::kLowest);
}

// best_fit places by size, the largest first, each in the tightest hole: the free range between
// live buffers that has the least left afterwards (best fit), or on top if there is none. Wide
// holes stay wide for later buffers.
//
//   address
//     | #####
//     |  (3)                  a buffer of 1 goes here, the hole of 1 below the topmost block,
//     | #####                 not into the hole of 2 further down, where first fit puts it
//     |
//     |
//     | #####
//     +-----------------> time
Plan best_fit(const PreparedProblem& prepared) {
  return place(prepared, order_by(prepared, size_first), Fit::kTightest);
}

// tflite does what TensorFlow Lite's arena planner does (tensorflow/lite/arena_planner.cc and
// simple_memory_arena.cc). Tensors that are live for the whole run go to the beginning of the arena
// in the order of the list, so that they cannot split it. The rest follows by size, the largest
// first, equal sizes in the order of allocation, each in the tightest gap or on top.
//
//   address
//     |      222
//     | 3333 222  444         1 is live throughout; 2, 3 and 4 follow by size, though each of them
//     | 3333 222  444         is larger than 1
//     | 1111111111111111
//     +-----------------> time
Plan tflite(const PreparedProblem& prepared) {
  const auto last = static_cast<int32_t>(prepared.load.size()) - 1;
  const auto key = [&](const Item& item) {
    const bool throughout = item.lower == 0 && item.upper == last;
    return throughout ? std::tuple(true, int64_t{0}, 0) : std::tuple(false, item.size, -item.lower);
  };
  return place(prepared, order_by(prepared, key), Fit::kTightest);
}

}  // namespace tessera::planning
