// By lifetime, the longest first, each at the lowest address at which it fits; of equal lifetimes
// the larger goes first. What lives throughout sinks to the bottom and out of the way, and short
// buffers come and go above it. Good for training, where weights and what backward needs live long;
// bad where one large buffer lives shortly and finds no hole any more.
//
//   address
//     |        44
//     |   333333333           who lives longer stands lower
//     | 2222222222222
//     | 1111111111111111
//     +-----------------> time
#include <utility>

#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placer.h"

namespace tessera {
namespace {

using namespace planning;

class FirstFitLifetime : public Placer {
 public:
  std::string_view name() const override { return "first_fit_lifetime"; }
  std::string_view explanation() const override {
    return "the longest-lived first, each at the lowest address at which it fits";
  }

  Plan plan_until(const Ready& ready, const Deadline& deadline) const override {
    const auto by_lifetime = [](const Item& item) {
      return std::pair(item.upper - item.lower, item.size);
    };
    return place(ready, order_by(ready, by_lifetime), Fit::kLowest, deadline);
  }
};

}  // namespace

const Planner& first_fit_lifetime_planner() {
  static const FirstFitLifetime planner;
  return planner;
}

}  // namespace tessera
