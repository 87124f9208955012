#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "tessera/memory/plan_check.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/planner_commands.h"

namespace tessera {

const Planner& planner_named(const std::string& name) {
  const Planner* planner = find_planner(name);
  if (planner != nullptr) return *planner;
  throw ConfigError(fmt::format("unknown planner '{}'; write one of {}", name, planner_names()));
}

bool placed(SolveStatus status) {
  return status == SolveStatus::kOptimal || status == SolveStatus::kFeasible;
}

Solution prove_checked(const Planner& planner, const Problem& problem, const Limits& limits) {
  Solution solution = planner.prove(problem, limits);
  if (const auto fault = placed(solution.status) ? check(problem, solution.plan) : std::nullopt)
    throw DataError(fmt::format("{}: {}", planner.name(), fault->text));
  return solution;
}

bool has_plan(const Problem& problem) {
  return std::all_of(problem.buffers.begin(), problem.buffers.end(),
                     [](const Interval& buffer) { return buffer.offset >= 0; });
}

Plan take_plan(Problem& problem, const std::string& file) {
  Plan plan;
  for (Interval& buffer : problem.buffers) {
    if (buffer.offset < 0) {
      throw DataError(
          fmt::format("{}: buffer '{}' has no offset; run 'planner solve' first", file, buffer.id));
    }
    plan.offsets.push_back(buffer.offset);
    if (buffer.size > 0 && buffer.lower < buffer.upper)
      plan.bytes = std::max(plan.bytes, buffer.offset + buffer.size);
    buffer.offset = -1;
  }
  return plan;
}

void print_conflict(const Problem& problem, const Solution& solution) {
  if (problem.capacity >= 0) {
    fmt::print(stderr, "planner: infeasible: no plan fits {} bytes\n", problem.capacity);
  } else {
    fmt::print(stderr, "planner: infeasible: fixed buffers overlap\n");
  }
  if (solution.conflict.empty()) return;
  fmt::print(stderr, "planner: these {} buffers do not fit together, but any fewer of them do:\n",
             solution.conflict.size());
  for (int i : solution.conflict) {
    const Interval& b = problem.buffers[i];
    fmt::print(stderr, "  {}: live in [{}, {}), {} bytes{}\n", b.id, b.lower, b.upper, b.size,
               b.offset >= 0 ? fmt::format(", fixed at {}", b.offset) : "");
  }
}

double ratio(int64_t bytes, int64_t bound) {
  return bound == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(bound);
}

std::string proof_of(const Solution& solution) {
  switch (solution.status) {
    case SolveStatus::kOptimal:
      return "lowest";
    case SolveStatus::kInfeasible:
      return "infeasible";
    case SolveStatus::kUnknown:
      return "not found";
    case SolveStatus::kFeasible:
      break;
  }
  return fmt::format("within {:.2f} %", std::ceil(10'000 * solution.gap()) / 100);
}

}  // namespace tessera
