// A planner of one's own: draws orders, places each first-fit, keeps the lowest.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>

#include <tessera/memory/plan.h>

class Lottery : public tessera::Planner {
 public:
  std::string_view name() const override { return "lottery"; }
  std::string_view explanation() const override { return "the lowest of 50 random orders"; }

  tessera::Plan solve(const tessera::Problem& problem) const override {
    std::vector<size_t> order(problem.buffers.size());
    std::iota(order.begin(), order.end(), 0);
    auto free = std::stable_partition(order.begin(), order.end(), [&](size_t i) {
      return problem.buffers[i].offset >= 0;  // those that must stand somewhere come first
    });
    std::mt19937 random(1);  // the same plan for the same problem
    tessera::Plan best = place(problem, order);
    for (int draw = 1; draw < 50; ++draw) {
      for (auto i = order.end(); i - free > 1; --i)
        std::iter_swap(i - 1, free + random() % (i - free));
      tessera::Plan plan = place(problem, order);
      if (plan.bytes < best.bytes) best = plan;
    }
    return best;
  }

 private:
  // Each buffer in turn at the lowest address that none before it needs at the same time.
  static tessera::Plan place(const tessera::Problem& problem, const std::vector<size_t>& order) {
    tessera::Plan plan{std::vector<int64_t>(order.size()), 0};
    for (size_t n = 0; n < order.size(); ++n) {
      const tessera::Interval& b = problem.buffers[order[n]];
      int64_t at = std::max<int64_t>(b.offset, 0);
      for (size_t k = 0; k < n && b.offset < 0; ++k) {
        const tessera::Interval& other = problem.buffers[order[k]];
        const int64_t first = plan.offsets[order[k]], end = first + other.size;
        if (other.lower >= b.upper || b.lower >= other.upper || at + b.size <= first || end <= at)
          continue;
        at = (end + b.alignment - 1) / b.alignment * b.alignment;
        k = size_t(-1);  // look at all of them again from there
      }
      plan.offsets[order[n]] = at;
      if (b.lower < b.upper) plan.bytes = std::max(plan.bytes, at + b.size);
    }
    return plan;
  }
};
