#include <algorithm>
#include <functional>
#include <utility>

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {
namespace {

struct Way {
  std::function<std::vector<int>()> order;
  Fit fit;
  bool always;
};

// Returns the orders of best_of_orders(), the likeliest first.
std::vector<Way> ways(const PreparedProblem& prepared, Effort& effort) {
  const auto by = [&](auto key) { return [&prepared, key] { return order_by(prepared, key); }; };
  const auto skyline = [&](SkylineRule rule) {
    return [&, rule] { return skyline_order(prepared, rule, &effort); };
  };
  // At the highest load no byte may be lost: the buffers live then go first.
  const auto crowded = [&](auto then) {
    return by([&prepared, then](const Item& item) {
      return std::pair(prepared.peak_load[&item - prepared.items.data()], then(item));
    });
  };
  const auto lifetime = [](const Item& item) { return item.lifetime(); };
  const auto area = [](const Item& item) { return item.area(); };
  const auto begin = [](const Item& item) { return -item.lower; };
  const auto end = [](const Item& item) { return item.upper; };
  return {
      {skyline(SkylineRule::kMaxArea), Fit::kLowest, true},
      {crowded(size_first), Fit::kTightest, true},
      {by(size_first), Fit::kLowest, true},
      {by(size_first), Fit::kTightest, true},
      {by(begin), Fit::kLowest, true},
      {by(area), Fit::kLowest, true},
      {by(lifetime_first), Fit::kLowest, true},
      {skyline(SkylineRule::kLargest), Fit::kLowest, false},
      {skyline(SkylineRule::kLongest), Fit::kLowest, false},
      {crowded(lifetime), Fit::kTightest, false},
      {crowded(size_first), Fit::kLowest, false},
      {crowded(area), Fit::kLowest, false},
      {by(lifetime), Fit::kTightest, false},
      {by(end), Fit::kTightest, false},
      {by(begin), Fit::kTightest, false},
  };
}

}  // namespace

Plan best_of_orders(const PreparedProblem& prepared, Effort limit, bool few) {
  constexpr size_t kFew = 2;
  constexpr Effort kMuch = 4'000'000;  // comparisons after which `few` allows no further order
  Effort effort = 0;
  Plan best{{}, INT64_MAX};
  const auto attempt = [&](const std::vector<int>& order, Fit fit) {
    Plan plan = place(prepared, order, fit, best.bytes, &effort);
    if (plan.bytes < best.bytes) best = std::move(plan);
  };
  // Returns true if there is a plan and no lower one is possible or wanted, or time is out.
  const auto done = [&] {
    return best.bytes < INT64_MAX &&
           (best.bytes <= prepared.good_enough || prepared.deadline.passed());
  };

  // The order of the hints comes first: a plan that was good before often still is.
  std::vector<int> order = prepared.movable;
  const auto hint = [&](int i) { return prepared.problem.buffers[i].hint; };
  if (std::any_of(order.begin(), order.end(), [&](int i) { return hint(i) >= 0; })) {
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      // Buffers without a hint, -1, come last.
      return static_cast<uint64_t>(hint(a)) < static_cast<uint64_t>(hint(b));
    });
    attempt(order, Fit::kLowest);
  }

  size_t tried = 0;
  for (const Way& way : ways(prepared, effort)) {
    if (done() || (few && (tried++ == kFew || effort > kMuch))) break;
    if (way.always || effort < limit) attempt(way.order(), way.fit);
  }
  return best;
}

}  // namespace tessera::planning
