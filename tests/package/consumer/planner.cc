// Plans three buffers with only the memory tier.
#include <cstdio>

#include <tessera/memory/plan.h>

int main() {
  tessera::Problem problem;
  problem.buffers = {{.lower = 0, .upper = 2, .size = 8},
                     {.lower = 0, .upper = 5, .size = 4},
                     {.lower = 2, .upper = 5, .size = 8}};
  const tessera::Plan plan = tessera::find_planner("best")->solve(problem);
  std::printf("%lld bytes\n", static_cast<long long>(plan.bytes));
}
