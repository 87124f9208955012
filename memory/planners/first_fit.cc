// By size, the largest first: the common greedy planner of inference engines, there called greedy
// by size. Large buffers find room while there is much of it and small ones fill what is left. Each
// goes to the lowest address at which it is free for the whole of its life (first fit); of equal
// sizes the one that lives longer goes first.
//
//   address
//     | 22222222
//     | 22222222              1 is 3 high, 2 is 2 high and lives with 1, so it stands above;
//     | 11111                 3 is 1 high and finds room at the bottom, once 1 is gone
//     | 11111
//     | 11111  3333
//     +-----------------> time
#include <utility>

#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placer.h"

namespace tessera {
namespace {

using namespace planning;

class FirstFit : public Placer {
 public:
  std::string_view name() const override { return "first_fit"; }
  std::string_view explanation() const override {
    return "the largest first, each at the lowest address at which it fits";
  }

  Plan plan_until(const Ready& ready, const Deadline& deadline) const override {
    const auto by_size = [](const Item& item) {
      return std::pair(item.size, item.upper - item.lower);
    };
    return place(ready, order_by(ready, by_size), Fit::kLowest, deadline);
  }
};

}  // namespace

const Planner& first_fit_planner() {
  static const FirstFit planner;
  return planner;
}

}  // namespace tessera
