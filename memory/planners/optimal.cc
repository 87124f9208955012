// optimal finds the lowest plan, with proof, or proves that none fits the capacity. An exact search
// (search.cc) decides whether there is a plan at a capacity: first at the lower bound, which most
// problems reach, and then ever closer between the highest capacity that is proved too small and
// the lowest plan known. If its decisions run out, the result says how far apart these still are.
//
//   bytes   |--- proved impossible ---|---- open ----|---- plans ----
//                                   bound          bytes
#include "tessera/memory/ablation.h"
#include "tessera/memory/planners/exact.h"
#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placement.h"

namespace tessera {
namespace {

using namespace planning;

constexpr int64_t kNodes = 600'000;

Solution prove_with(const Inferences& inferences, const Problem& problem, const Limits& limits) {
  const Deadline deadline(limits.seconds);
  const PreparedProblem prepared(problem);
  Plan known = best_of_orders(problem, prepared, 0, deadline, true);
  const int64_t nodes = limits.nodes > 0 ? limits.nodes : kNodes;
  return refine(problem, prepared, judge(problem, prepared, std::move(known), nodes, deadline),
                nodes, deadline, inferences);
}

class Optimal : public Planner {
 public:
  std::string_view name() const override { return "optimal"; }
  std::string_view explanation() const override {
    return "an exact search: the lowest plan with proof, unless its limit of decisions ends it "
           "first";
  }
  Plan solve(const Problem& problem) const override { return prove(problem).plan; }
  Solution prove(const Problem& problem, const Limits& limits = {}) const override {
    return prove_with({}, problem, limits);
  }
};

struct Switch {
  Ablation ablation;
  bool Inferences::*use;
};

constexpr Switch kSwitches[] = {
    {{"peeling", "a block that fits wherever the others are placed is placed last"},
     &Inferences::peeling},
    {{"sums", "the unplaced bytes of each section must fit above its floor"}, &Inferences::sums},
    {{"splits", "time ranges that no unplaced block connects are solved separately"},
     &Inferences::splits},
    {{"ceiling", "a block that spans its whole time range goes to the top of the range"},
     &Inferences::ceiling},
    {{"duplicates", "of identical blocks, the first is placed lowest"}, &Inferences::duplicates},
    {{"hatless", "a block that lifts no other block is not tried elsewhere"}, &Inferences::hatless},
    {{"nogoods", "a state that failed once is not tried again"}, &Inferences::nogoods},
    {{"restarts", "several strategies alternate, each time for longer"}, &Inferences::restarts},
};

}  // namespace

const Planner& optimal_planner() {
  static const Optimal planner;
  return planner;
}

const std::vector<Ablation>& ablations() {
  static const std::vector<Ablation> all = [] {
    std::vector<Ablation> list;
    for (const Switch& s : kSwitches) list.push_back(s.ablation);
    return list;
  }();
  return all;
}

Solution prove_without(std::string_view inference, const Problem& problem, const Limits& limits) {
  Inferences inferences;
  for (const Switch& s : kSwitches) {
    if (s.ablation.name == inference) inferences.*s.use = false;
  }
  return prove_with(inferences, problem, limits);
}

}  // namespace tessera
