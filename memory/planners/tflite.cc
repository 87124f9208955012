// What TensorFlow Lite's arena planner does (tensorflow/lite/arena_planner.cc and
// simple_memory_arena.cc): tensors that live for the whole run go to the beginning of the arena in
// the order of the list, so that they cannot cut it into pieces; then the rest by size, the largest
// first, equals in the order in which they are allocated; each in the tightest gap, or on top.
//
//   address
//     |      222
//     | 3333 222  444         1 lives throughout; 2, 3 and 4 follow by size, though each of them
//     | 3333 222  444         is larger than 1
//     | 1111111111111111
//     +-----------------> time
#include <tuple>

#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placer.h"

namespace tessera {
namespace {

using namespace planning;

class TfLite : public Placer {
 public:
  std::string_view name() const override { return "tflite"; }
  std::string_view explanation() const override {
    return "TensorFlow Lite's: what lives throughout first, then by size in the tightest gap";
  }

  Plan plan_until(const Ready& ready, const Deadline& deadline) const override {
    const auto last = static_cast<int32_t>(ready.load.size()) - 1;
    const auto key = [last](const Item& item) {
      const bool throughout = item.lower == 0 && item.upper == last;
      return throughout ? std::tuple(true, int64_t{0}, 0)
                        : std::tuple(false, item.size, -item.lower);
    };
    return place(ready, order_by(ready, key), Fit::kTightest, deadline);
  }
};

}  // namespace

const planning::Placer& tflite_planner() {
  static const TfLite planner;
  return planner;
}

}  // namespace tessera
