// The default: every cheap way is tried and the lowest plan wins; if it is above the lower bound,
// an exact search looks below it for a while (exact.h), and what is left of a fixed effort goes
// into a local search. Stops as soon as the plan is proved lowest.
#include <algorithm>
#include <functional>
#include <utility>

#include "tessera/memory/planners/exact.h"
#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placement.h"

namespace tessera {
namespace {

using namespace planning;

// Comparisons to spend: some 10 to 20 ms on an idle core. The ways that the other planners stand
// for are tried in any case, so that no other plan is lower.
constexpr Effort kBudget = 8'000'000;

// The exact search gets so many decisions for each buffer, and none where they would take seconds.
constexpr int64_t kNodesPerBuffer = 24;
constexpr size_t kMostSearched = 3000;

// SplitMix64 (Steele, Lea and Flood 2014): the same numbers on every run.
class Numbers {
 public:
  size_t below(size_t n) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % n;
  }

 private:
  uint64_t state_ = 0;
};

class Attempts {
 public:
  explicit Attempts(const Problem& problem)
      : ready_(problem), enough_(std::max(ready_.bound, problem.capacity)) {}

  Solution run(const Problem& problem, const Limits& limits) {
    try_hints(problem);
    try_orders();
    Solution solution = judge(problem, best_);
    if (!done() && solution.verdict != Verdict::kInfeasible) {
      solution = search(problem, limits);
      best_ = solution.plan;
      enough_ = std::max(enough_, solution.bound);
    }
    if (!done() && solution.verdict != Verdict::kInfeasible) {
      try_others(problem);
      improve();
      solution.plan = best_;
      const bool fits = problem.capacity < 0 || best_.bytes <= problem.capacity;
      solution.verdict = best_.bytes <= solution.bound ? Verdict::kOptimal
                         : fits                        ? Verdict::kWithin
                                                       : Verdict::kNotFound;
    }
    return solution;
  }

 private:
  // Nothing lower is possible, or wanted.
  bool done() const { return best_.bytes <= enough_; }

  Solution search(const Problem& problem, const Limits& limits) const {
    const size_t count = problem.buffers.size();
    const int64_t nodes =
        limits.nodes > 0 ? limits.nodes : kNodesPerBuffer * std::ssize(problem.buffers);
    if (limits.nodes <= 0 && count > kMostSearched) return judge(problem, best_);
    return refine(problem, best_, {nodes, limits.seconds});
  }

  void attempt(const std::vector<int>& order, Fit fit) {
    if (done()) return;
    Plan plan = place(ready_, order, fit, best_.bytes, &effort_);
    if (plan.bytes < best_.bytes) best_ = std::move(plan);
  }

  // A plan that was good before often still is.
  void try_hints(const Problem& problem) {
    std::vector<int> order = ready_.movable;
    const auto hint = [&](int i) { return problem.buffers[i].hint; };
    if (std::none_of(order.begin(), order.end(), [&](int i) { return hint(i) >= 0; })) return;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      // Those without a hint, -1, come last.
      return static_cast<uint64_t>(hint(a)) < static_cast<uint64_t>(hint(b));
    });
    attempt(order, Fit::kLowest);
  }

  void try_orders() {
    const auto life = [](const Item& item) { return item.upper - item.lower; };
    const auto size = [&](const Item& item) { return std::pair(item.size, life(item)); };
    const auto area = [&](const Item& item) { return static_cast<double>(item.size) * life(item); };
    // Where the load is highest no byte may be lost: what lives there goes first.
    const auto crowd = [&](const Item& item) { return ready_.crowd[&item - ready_.items.data()]; };
    const auto crowded = [&](const Item& item) { return std::pair(crowd(item), size(item)); };
    const auto crowded_long = [&](const Item& item) { return std::pair(crowd(item), life(item)); };
    const auto crowded_area = [&](const Item& item) { return std::pair(crowd(item), area(item)); };

    using Order = std::function<std::vector<int>()>;
    const auto by = [&](auto key) -> Order { return [=, this] { return order_by(ready_, key); }; };
    const auto skyline = [&](SkylineRule rule) -> Order {
      return [=, this] { return skyline_order(ready_, rule, &effort_); };
    };
    struct Way {
      Order order;
      Fit fit;
      bool always;
    };
    const Way ways[] = {
        {by(crowded), Fit::kTightest, true},
        {skyline(SkylineRule::kMostArea), Fit::kLowest, true},
        {by(size), Fit::kLowest, true},
        {by(size), Fit::kTightest, true},
        {by([](const Item& item) { return -item.lower; }), Fit::kLowest, true},
        {skyline(SkylineRule::kLargest), Fit::kLowest, false},
        {skyline(SkylineRule::kLongest), Fit::kLowest, false},
        {by(crowded_long), Fit::kTightest, false},
        {by(crowded), Fit::kLowest, false},
        {by(crowded_area), Fit::kLowest, false},
        {by(area), Fit::kLowest, false},
        {by(life), Fit::kTightest, false},
        {by([](const Item& item) { return item.upper; }), Fit::kTightest, false},
        {by([](const Item& item) { return -item.lower; }), Fit::kTightest, false},
    };
    for (const Way& way : ways) {
      if (done()) return;
      if (way.always || effort_ < kBudget / 4 * 3) attempt(way.order(), way.fit);
    }
  }

  // The other planners, so that none is lower; for tens of thousands of buffers they cost too much.
  void try_others(const Problem& problem) {
    if (problem.buffers.size() > kMostSearched) return;
    for (const Planner* other : {&first_fit_area_planner(), &first_fit_lifetime_planner(),
                                 &tflite_planner(), &xla_planner(), &local_search_planner()}) {
      Plan plan = other->solve(problem);
      if (plan.bytes < best_.bytes) best_ = std::move(plan);
    }
  }

  // Takes a buffer that reaches the top, places it earlier, and keeps what does not end higher.
  void improve() {
    std::vector<int> order = ready_.movable;
    if (order.size() < 2) return;
    sort_by_offset(order, best_);
    Plan current = best_;
    Numbers numbers;
    for (int64_t round = 0; effort_ < kBudget && !done(); ++round) {
      std::vector<int> changed = order;
      const size_t from = top_position(changed, current, numbers);
      if (from == 0) return;  // a fixed buffer or the first one is the top: nothing to gain
      const size_t to = numbers.below(from);
      std::rotate(changed.begin() + to, changed.begin() + from, changed.begin() + from + 1);
      Plan plan = place(ready_, changed, Fit::kLowest, current.bytes + 1, &effort_);
      if (plan.bytes > current.bytes) continue;
      order = std::move(changed);
      if (plan.bytes < best_.bytes) {
        best_ = plan;
        sort_by_offset(order, best_);
      }
      current = std::move(plan);
    }
  }

  static void sort_by_offset(std::vector<int>& order, const Plan& plan) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return plan.offsets[a] < plan.offsets[b]; });
  }

  // Where in the order one of the buffers stands that end at the top of the plan.
  size_t top_position(const std::vector<int>& order, const Plan& plan, Numbers& numbers) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < order.size(); ++i) {
      if (plan.offsets[order[i]] + ready_.items[order[i]].size == plan.bytes) found.push_back(i);
    }
    return found.empty() ? 0 : found[numbers.below(found.size())];
  }

  Ready ready_;
  int64_t enough_;  // a plan of so many bytes ends it
  Plan best_{{}, INT64_MAX};
  Effort effort_ = 0;
};

class Best : public Planner {
 public:
  std::string_view name() const override { return "best"; }
  std::string_view explanation() const override {
    return "the lowest of all cheap ways, then an exact and a local search (the default)";
  }
  Plan solve(const Problem& problem) const override { return prove(problem).plan; }
  Solution prove(const Problem& problem, const Limits& limits = {}) const override {
    return Attempts(problem).run(problem, limits);
  }
};

}  // namespace

const Planner& best_planner() {
  static const Best planner;
  return planner;
}

}  // namespace tessera
