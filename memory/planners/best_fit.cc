// By size, the largest first, each in the tightest hole: of all free ranges between the buffers
// that live at the same time it takes the one that it leaves the least of (best fit), and the top
// only when there is none. Wide holes stay wide for what is still to come.
//
//   address
//     | #####
//     |  (3)                  a buffer of 1 goes here, the hole of 1 below the topmost block,
//     | #####                 not into the hole of 2 further down, where first fit puts it
//     |
//     |
//     | #####
//     +-----------------> time
#include <utility>

#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placer.h"

namespace tessera {
namespace {

using namespace planning;

class BestFit : public Placer {
 public:
  std::string_view name() const override { return "best_fit"; }
  std::string_view explanation() const override {
    return "the largest first, each in the hole that it fills best";
  }

  Plan plan_until(const Ready& ready, const Deadline& deadline) const override {
    const auto by_size = [](const Item& item) {
      return std::pair(item.size, item.upper - item.lower);
    };
    return place(ready, order_by(ready, by_size), Fit::kTightest, deadline);
  }
};

}  // namespace

const Planner& best_fit_planner() {
  static const BestFit planner;
  return planner;
}

}  // namespace tessera
