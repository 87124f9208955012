// The lowest plan there is, with proof, or proof that none fits the capacity: an exact search
// (search.cc) which asks whether there is a plan at a capacity, first at the lower bound, which
// most problems reach, and then ever closer between the highest capacity that is proved too small
// and the lowest plan known. Where its decisions run out it says how far apart these still are.
//
//   bytes   |--- proved impossible ---|---- open ----|---- plans ----
//                                   bound          bytes
#include "tessera/memory/planners/exact.h"
#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placement.h"

namespace tessera {
namespace {

constexpr int64_t kNodes = 600'000;

class Optimal : public Planner {
 public:
  std::string_view name() const override { return "optimal"; }
  std::string_view explanation() const override {
    return "an exact search: the lowest plan with proof, or as far as its decisions reach";
  }
  Plan solve(const Problem& problem) const override { return prove(problem).plan; }
  Solution prove(const Problem& problem, const Limits& limits = {}) const override {
    using namespace planning;
    const Ready ready(problem);
    Plan known =
        place(ready, order_by(ready, [](const Item& item) { return item.size; }), Fit::kLowest);
    return refine(problem, std::move(known),
                  {limits.nodes > 0 ? limits.nodes : kNodes, limits.seconds});
  }
};

}  // namespace

const Planner& optimal_planner() {
  static const Optimal planner;
  return planner;
}

}  // namespace tessera
