// PreparedProblem, a problem prepared for planners, functions that place its buffers one after
// another in a given order, and the planners that are made of these. Private to memory/planners.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera::planning {

using Clock = std::chrono::steady_clock;

// A time limit in seconds.
class Deadline {
 public:
  Deadline() = default;  // never
  explicit Deadline(double seconds) {
    if (seconds <= 0) return;
    seconds *= 0.95;  // the rest is for work in progress at the end
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(std::min(seconds, 1e6)));
  }

  bool passed() const { return end_ && Clock::now() >= *end_; }
  // Returns whether work that takes `time` would end before the deadline.
  bool leaves(Clock::duration time) const { return !end_ || Clock::now() + time < *end_; }

 private:
  std::optional<Clock::time_point> end_;
};

// A buffer with its times as ranks among all times, which are small and dense.
struct Item {
  int64_t size;
  int64_t alignment;
  int64_t fixed;  // its offset, or -1
  int32_t lower;
  int32_t upper;
  int32_t first_gap;  // index in PreparedProblem::gaps
  int32_t gap_count;

  int32_t lifetime() const { return upper - lower; }
  // A float, because a size times a time may not fit an integer.
  double area() const { return static_cast<double>(size) * lifetime(); }
};

struct RankedGap {
  int32_t lower;
  int32_t upper;
};

// Keeps a reference to the problem.
struct PreparedProblem {
  explicit PreparedProblem(const Problem& problem, const Deadline& deadline = {});

  const Problem& problem;
  const Deadline deadline;
  std::vector<int64_t> times;      // by rank, ascending
  std::vector<Item> items;         // one per buffer
  std::vector<RankedGap> gaps;     // gaps of all items
  std::vector<int> movable;        // need memory and are not fixed, in the problem's order
  std::vector<int> fixed;          // need memory at a given offset
  std::vector<int64_t> load;       // live bytes at each rank, without gaps
  std::vector<int64_t> peak_load;  // per item: the largest load within its lifetime
  int64_t bound = 0;               // lower_bound()
  int64_t good_enough = 0;         // a plan of this size need not be lower

  // Returns whether both are live at some time.
  bool meet(const Item& a, const Item& b) const;
  // Returns whether the item is live at the time of that rank.
  bool lives(const Item& item, int32_t time) const;

 private:
  void rank_times();
  void measure_load();
  bool meet_outside_gaps(const Item& a, const Item& b) const;
};

enum class Fit {
  kLowest,   // the lowest address at which the buffer fits
  kTightest  // the hole with the least bytes left, or else the top
};

// The number of comparisons of a planner: its effort, the same on every machine.
using Effort = int64_t;

// Places the fixed buffers, then the movable ones in `order`. Stops early if the plan grows to
// `stop_at` bytes or more; the plan is then incomplete, with bytes >= stop_at. Past the deadline,
// looks for no more holes and stacks the rest on top.
Plan place(const PreparedProblem& prepared, const std::vector<int>& order, Fit fit,
           int64_t stop_at = INT64_MAX, Effort* effort = nullptr);

// Stacks order[first], order[first + 1], ... on top of the plan.
void stack(const PreparedProblem& prepared, const std::vector<int>& order, size_t first,
           Plan& plan);

// Places the buffers of `order`, each as low as it fits, around the buffers of `there`.
Plan place_around(const PreparedProblem& prepared, const std::vector<int>& there, Plan plan,
                  const std::vector<int>& order);

// Returns the movable buffers, sorted by descending key; equal keys keep the problem's order.
template <class Key>
std::vector<int> order_by(const PreparedProblem& prepared, Key key) {
  std::vector<int> order = prepared.movable;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return key(prepared.items[a]) > key(prepared.items[b]); });
  return order;
}

// Keys of order_by(): by size, equal sizes by lifetime; and by lifetime, equal ones by size.
inline constexpr auto size_first = [](const Item& item) {
  return std::pair(item.size, item.lifetime());
};
inline constexpr auto lifetime_first = [](const Item& item) {
  return std::pair(item.lifetime(), item.size);
};

// Returns the order in which a rising skyline takes the buffers (skyline.cc); past the deadline,
// the rest by the rule alone.
enum class SkylineRule { kLongest, kLargest, kMaxArea };
std::vector<int> skyline_order(const PreparedProblem& prepared, SkylineRule rule,
                               Effort* effort = nullptr);

// Returns the lowest of many cheap plans (order_search.cc). Places the buffers in a number of
// orders, the likeliest first, until the plan is as low as the lower bound or fits the capacity.
// Orders of other planners are tried in any case, the others while the effort is below `limit`; if
// `few`, at most the first two.
Plan best_of_orders(const PreparedProblem& prepared, Effort limit, bool few = false);

// The planners of these names. They return a plan even past the deadline, then without further
// optimization.
Plan none(const PreparedProblem& prepared);
Plan in_order(const PreparedProblem& prepared);
Plan first_fit(const PreparedProblem& prepared);
Plan first_fit_area(const PreparedProblem& prepared);
Plan first_fit_lifetime(const PreparedProblem& prepared);
Plan best_fit(const PreparedProblem& prepared);
Plan skyline(const PreparedProblem& prepared);
Plan xla(const PreparedProblem& prepared);
Plan tflite(const PreparedProblem& prepared);
Plan local_search(const PreparedProblem& prepared);
// Planners with proofs; `nodes` as in Limits.
Solution optimal(const PreparedProblem& prepared, int64_t nodes);
Solution best(const PreparedProblem& prepared, int64_t nodes);

}  // namespace tessera::planning
