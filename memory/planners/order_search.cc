#include <algorithm>
#include <functional>
#include <utility>

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {
namespace {

constexpr int kFew = 2;
constexpr Effort kMuch = 4'000'000;  // comparisons after which `few` allows no further order

class OrderSearch {
 public:
  OrderSearch(const PreparedProblem& prepared, Effort limit, bool few)
      : prepared_(prepared), limit_(limit), few_(few) {}

  Plan run() {
    try_hints();
    try_orders();
    return std::move(best_);
  }

 private:
  // Returns true if there is a plan and no lower one is possible or wanted, or time is out.
  bool done() const {
    return best_.bytes < INT64_MAX &&
           (best_.bytes <= prepared_.good_enough || prepared_.deadline.passed());
  }

  void attempt(const std::vector<int>& order, Fit fit) {
    Plan plan = place(prepared_, order, fit, best_.bytes, &effort_);
    if (plan.bytes < best_.bytes) best_ = std::move(plan);
  }

  // Tries the order of the hints: a plan that was good before often still is.
  void try_hints() {
    std::vector<int> order = prepared_.movable;
    const auto hint = [&](int i) { return prepared_.problem.buffers[i].hint; };
    if (std::none_of(order.begin(), order.end(), [&](int i) { return hint(i) >= 0; })) return;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      // Buffers without a hint, -1, come last.
      return static_cast<uint64_t>(hint(a)) < static_cast<uint64_t>(hint(b));
    });
    attempt(order, Fit::kLowest);
  }

  void try_orders() {
    const auto life = [](const Item& item) { return item.lifetime(); };
    const auto area = [](const Item& item) { return item.area(); };
    const auto begin = [](const Item& item) { return -item.lower; };
    const auto end = [](const Item& item) { return item.upper; };
    // At the highest load no byte may be lost: the buffers live then go first.
    const auto peak_load = [&](const Item& item) {
      return prepared_.peak_load[&item - prepared_.items.data()];
    };
    const auto crowded = [&](const Item& item) {
      return std::pair(peak_load(item), size_first(item));
    };
    const auto crowded_long = [&](const Item& item) {
      return std::pair(peak_load(item), item.lifetime());
    };
    const auto crowded_area = [&](const Item& item) {
      return std::pair(peak_load(item), item.area());
    };

    using Order = std::function<std::vector<int>()>;
    const auto by = [&](auto key) -> Order {
      return [=, this] { return order_by(prepared_, key); };
    };
    const auto skyline = [&](SkylineRule rule) -> Order {
      return [=, this] { return skyline_order(prepared_, rule, &effort_); };
    };
    struct Way {
      Order order;
      Fit fit;
      bool always;
    };
    const Way ways[] = {
        {skyline(SkylineRule::kMaxArea), Fit::kLowest, true},
        {by(crowded), Fit::kTightest, true},
        {by(size_first), Fit::kLowest, true},
        {by(size_first), Fit::kTightest, true},
        {by(begin), Fit::kLowest, true},
        {by(area), Fit::kLowest, true},
        {by(lifetime_first), Fit::kLowest, true},
        {skyline(SkylineRule::kLargest), Fit::kLowest, false},
        {skyline(SkylineRule::kLongest), Fit::kLowest, false},
        {by(crowded_long), Fit::kTightest, false},
        {by(crowded), Fit::kLowest, false},
        {by(crowded_area), Fit::kLowest, false},
        {by(life), Fit::kTightest, false},
        {by(end), Fit::kTightest, false},
        {by(begin), Fit::kTightest, false},
    };
    for (const Way& way : ways) {
      if (done() || (few_ && (&way == ways + kFew || effort_ > kMuch))) return;
      if (way.always || effort_ < limit_) attempt(way.order(), way.fit);
    }
  }

  const PreparedProblem& prepared_;
  const Effort limit_;
  const bool few_;
  Effort effort_ = 0;
  Plan best_{{}, INT64_MAX};
};

}  // namespace

Plan best_of_orders(const PreparedProblem& prepared, Effort limit, bool few) {
  return OrderSearch(prepared, limit, few).run();
}

}  // namespace tessera::planning
