// none shares nothing: every buffer is placed above all earlier ones in the list, live or not. No
// plan needs more, so it is the baseline for what planning saves. Every byte has one meaning for
// the whole run, which exposes a wrong lifetime.
//
//   address
//     |             cc        three buffers, one after another in time
//     |       bbbbbb
//     | aaaaaa
//     +-----------------> time
#include <algorithm>

#include "tessera/memory/planners/list.h"

namespace tessera {
namespace {

class None : public Planner {
 public:
  std::string_view name() const override { return "none"; }
  std::string_view explanation() const override {
    return "shares nothing: every buffer has bytes of its own";
  }

  Plan solve(const Problem& problem) const override {
    Plan plan;
    for (const Interval& buffer : problem.buffers) {
      if (buffer.offset >= 0 && buffer.takes_room()) {
        plan.bytes = std::max(plan.bytes, buffer.offset + buffer.size);
      }
    }
    for (const Interval& buffer : problem.buffers) {
      int64_t offset = std::max<int64_t>(buffer.offset, 0);
      if (buffer.offset < 0 && buffer.takes_room()) {
        offset = (plan.bytes + buffer.alignment - 1) / buffer.alignment * buffer.alignment;
        plan.bytes = offset + buffer.size;
      }
      plan.offsets.push_back(offset);
    }
    return plan;
  }
};

}  // namespace

const Planner& none_planner() {
  static const None planner;
  return planner;
}

}  // namespace tessera
