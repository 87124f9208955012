// Any bytes as a problem in CSV, planned by every planner with few decisions: plans must pass the
// check, and no planner may claim what another plan disproves.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/plan_csv.h"
#include "tessera/runtime/error.h"

namespace {

using namespace tessera;

constexpr size_t kMaxBuffers = 24;
constexpr Limits kFew{.nodes = 200};

void require(bool holds, std::string_view planner, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(planner.size()), planner.data(), what);
  std::abort();
}

// Returns no capacity, the lower bound, or somewhat more or less, by the length of the text.
int64_t some_capacity(const Problem& problem, size_t length) {
  const int64_t bound = lower_bound(problem);
  switch (length % 5) {
    case 0:
      return bound;
    case 1:
      return bound + bound / 8 + 1;
    case 2:
      return bound - bound / 8;
    case 3:
      return unplanned_bytes(problem);
    default:
      return -1;
  }
}

// Checks a plan as if there were no capacity: planners return the lowest that they found.
void look_at(const Planner& planner, const Problem& problem, const Solution& solution) {
  const std::string_view name = planner.name();
  const bool placed =
      solution.status == SolveStatus::kOptimal || solution.status == SolveStatus::kFeasible;
  if (placed) {
    require(!check(problem, solution.plan), name, "its plan is wrong");
    require(solution.plan.bytes >= solution.bound, name, "its plan is below its bound");
  }
  if (solution.status == SolveStatus::kUnknown)
    require(problem.capacity >= 0 && solution.plan.bytes > problem.capacity, name,
            "it had found one");
}

// A conflict proves that there is no plan, so it must not have one itself.
void look_at_conflict(const Planner& planner, const Problem& problem, const Solution& solution) {
  if (solution.conflict.empty()) return;
  Problem part{{}, problem.capacity};
  for (int i : solution.conflict) part.buffers.push_back(problem.buffers.at(i));
  for (const char* simple : {"first_fit", "best_fit", "in_order"})
    require(check(part, find_planner(simple)->solve(part)).has_value(), planner.name(),
            "its conflict can be planned");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Problem problem;
  try {
    problem = read_plan_csv({reinterpret_cast<const char*>(data), size});
  } catch (const DataError&) {
    return 0;
  }
  if (problem.buffers.size() > kMaxBuffers) return 0;
  problem.capacity = some_capacity(problem, size);
  int64_t lowest = INT64_MAX, highest_bound = 0;
  bool infeasible = false;
  for (const Planner* planner : planners()) {
    const Solution solution = planner->prove(problem, kFew);
    look_at(*planner, problem, solution);
    look_at_conflict(*planner, problem, solution);
    infeasible |= solution.status == SolveStatus::kInfeasible;
    highest_bound = std::max(highest_bound, solution.bound);
    if (solution.status == SolveStatus::kOptimal)
      highest_bound = std::max(highest_bound, solution.plan.bytes);
    if (!check(problem, solution.plan)) lowest = std::min(lowest, solution.plan.bytes);
    require(!infeasible || lowest == INT64_MAX, planner->name(), "infeasible, but there is a plan");
    require(highest_bound <= lowest, planner->name(), "there is a plan below what is proved");
  }
  return 0;
}
