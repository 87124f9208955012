// What an eager allocator that always takes the lowest free address ends up with: the buffers are
// placed in the order in which they begin to live, and none knows what comes after it. Holes are
// left where short-lived buffers stood below long-lived ones, and a large late one goes on top.
//
//   address
//     |          cccccc
//     |          cccccc       c, 2 high, does not fit the hole of 1 that a left: b was put above
//     |    bbbbbbbbbbbb       a when nobody had heard of c yet
//     | aaaaaa
//     +-----------------> time
#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placer.h"

namespace tessera {
namespace {

using namespace planning;

class InOrder : public Placer {
 public:
  std::string_view name() const override { return "in_order"; }
  std::string_view explanation() const override {
    return "in the order of allocation, each at the lowest free address, as an eager allocator "
           "would";
  }

  Plan plan_until(const Ready& ready, const Deadline& deadline) const override {
    return place(ready, order_by(ready, [](const Item& item) { return -item.lower; }), Fit::kLowest,
                 deadline);
  }
};

}  // namespace

const Planner& in_order_planner() {
  static const InOrder planner;
  return planner;
}

}  // namespace tessera
