// A program with its own planner: adds the planner, then names it like a built-in one.
#include <cstdio>

#include "lottery.h"
#include <tessera/tessera.h>

using namespace tessera;

int main() {
  static const Lottery lottery;
  add_planner(lottery);
  Tensor x = random_normal({64, 256}, 1), w = random_normal({256, 256}, 2);
  auto step = compile([&](const Tensor& in) { return sum(relu(matmul(relu(matmul(in, w)), w))); },
                      {.planner = find_planner("lottery")});
  const PlanReport report = plan_report(*step.prepare({x.spec()}).compiled_graph());
  std::printf("%s: %lld bytes, sum %.4g\n", report.planner.c_str(),
              static_cast<long long>(report.arena), step(x).item<double>());
}
