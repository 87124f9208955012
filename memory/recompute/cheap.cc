// Only steps that are cheap run again: element-wise ones and norms, whose time is that of reading
// and writing their values once. Convolutions and products keep what they make. Of these, what
// frees most bytes for its cost is forgotten first, until nothing is left that helps.
//
//   forward   conv -> y -> norm -> z -> conv          y is kept, z is not
//   backward          y -> norm -> z -> conv's        z is made again right before it is read
#include "tessera/memory/recompute/explore.h"
#include "tessera/memory/recompute/list.h"

namespace tessera {
namespace {

using namespace recomputing;

class Cheap : public RecomputeStrategy {
 public:
  std::string_view name() const override { return "cheap"; }
  std::string_view explanation() const override {
    return "only steps that are marked cheap run again";
  }
  std::vector<Runs> ways(const RecomputeProblem& problem) const override {
    const Tables tables(problem);
    Frontier frontier;
    go_down(tables, true, frontier);
    return ways_of(tables, frontier);
  }
};

}  // namespace

const RecomputeStrategy& cheap_recompute() {
  static const Cheap strategy;
  return strategy;
}

}  // namespace tessera
