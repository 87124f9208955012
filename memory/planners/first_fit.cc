// By size, the largest first: the common greedy planner of inference engines.
#include <utility>

#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placement.h"

namespace tessera {
namespace {

class FirstFit : public Planner {
 public:
  std::string_view name() const override { return "first_fit"; }
  std::string_view explanation() const override {
    return "the largest first, each at the lowest address at which it fits";
  }

  Plan solve(const Problem& problem) const override {
    using namespace planning;
    const Ready ready(problem);
    const auto by_size = [](const Item& item) {
      return std::pair(item.size, item.upper - item.lower);
    };
    return place(ready, order_by(ready, by_size), Fit::kLowest);
  }
};

}  // namespace

const Planner& first_fit_planner() {
  static const FirstFit planner;
  return planner;
}

}  // namespace tessera
