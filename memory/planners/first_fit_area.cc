// By area, size times lifetime, the largest first, each at the lowest address at which it fits.
// What covers most of the picture is hardest to bring in later, be it high or long; TelaMalloc
// (Maas et al., ASPLOS 2023) takes area as one of its orders for the same reason. Times are counted
// as ranks among all beginnings and ends, so that a long wait in which nothing happens weighs
// nothing.
//
//   address
//     | 22222 333             1: 2 high, 12 long, area 24
//     | 22222 333             2: 3 high,  5 long, area 15
//     | 22222 333             3: 3 high,  3 long, area  9; by size both would go before 1
//     | 111111111111
//     | 111111111111
//     +-----------------> time
#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placer.h"

namespace tessera {
namespace {

using namespace planning;

class FirstFitArea : public Placer {
 public:
  std::string_view name() const override { return "first_fit_area"; }
  std::string_view explanation() const override {
    return "the largest size x lifetime first, each at the lowest address at which it fits";
  }

  Plan plan_until(const Ready& ready, const Deadline& deadline) const override {
    // As a float, because a size times a time need not fit an integer.
    const auto by_area = [](const Item& item) {
      return static_cast<double>(item.size) * (item.upper - item.lower);
    };
    return place(ready, order_by(ready, by_area), Fit::kLowest, deadline);
  }
};

}  // namespace

const Planner& first_fit_area_planner() {
  static const FirstFitArea planner;
  return planner;
}

}  // namespace tessera
