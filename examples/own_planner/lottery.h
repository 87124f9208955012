// Lottery: a custom planner as an example. Draws orders, places each first-fit, keeps the lowest.
#pragma once
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <tessera/memory/plan.h>

struct Lottery : tessera::Planner {
  std::string_view name() const override { return "lottery"; }
  std::string_view explanation() const override { return "the lowest of 50 random orders"; }

  tessera::Plan solve(const tessera::Problem& problem) const override {
    std::vector<int> order(problem.buffers.size());
    std::iota(order.begin(), order.end(), 0);
    const auto fixed = [&](int i) { return problem.buffers[i].offset >= 0; };
    const auto movable = std::partition(order.begin(), order.end(), fixed);  // fixed ones first
    std::mt19937 random(1);  // a fixed seed: equal problems get equal plans
    tessera::Plan best{{}, INT64_MAX};
    for (int draw = 0; draw < 50; ++draw, std::shuffle(movable, order.end(), random))
      if (auto plan = place(problem, order); plan.bytes < best.bytes) best = plan;
    return best;
  }

  // Places each buffer in turn at the lowest offset that is free during its lifetime.
  static tessera::Plan place(const tessera::Problem& problem, const std::vector<int>& order) {
    tessera::Plan plan{std::vector<int64_t>(order.size()), 0};
    std::multimap<int64_t, const tessera::Interval*> placed;
    for (int i : order) {
      const auto& b = problem.buffers[i];
      int64_t at = std::max<int64_t>(b.offset, 0);
      for (auto [low, other] : placed)
        if (b.offset < 0 && other->lower < b.upper && b.lower < other->upper && at + b.size > low)
          at = std::max(at, (low + other->size + b.alignment - 1) / b.alignment * b.alignment);
      placed.emplace(plan.offsets[i] = at, &b);
      if (b.lower < b.upper) plan.bytes = std::max(plan.bytes, at + b.size);
    }
    return plan;
  }
};
