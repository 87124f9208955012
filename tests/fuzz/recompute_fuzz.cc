// Any bytes as a recomputation problem: refused with a DataError, or writing and reading it returns
// an equal one, and every strategy's plan passes the check.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tessera/memory/recompute/recompute_text.h"
#include "tessera/runtime/error.h"

namespace {

constexpr size_t kMaxSteps = 12, kMaxValues = 24;

void require(bool holds, std::string_view who, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(who.size()), who.data(), what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  RecomputeProblem problem;
  try {
    problem = read_recompute({reinterpret_cast<const char*>(data), size});
  } catch (const DataError&) {
    return 0;
  }
  require(!malformed(problem), "reader", "let a malformed problem pass");
  require(read_recompute(write_recompute(problem)) == problem, "writer", "changed the problem");
  if (problem.steps.size() > kMaxSteps || problem.values.size() > kMaxValues) return 0;
  for (const RecomputeStrategy* strategy : recompute_strategies()) {
    const RecomputePlan plan = strategy->solve(problem);
    require(!check_recompute(problem, plan), strategy->name(), "its plan is wrong");
  }
  return 0;
}
