// Square-root checkpointing (Chen, Xu, Zhang and Guestrin 2016): what leads up to the step at which
// most bytes are live is cut in segments of as many steps each. Of what is read after it, only what
// passes from one segment to the next is kept; the rest is made again, a segment at a time. All
// numbers of segments from 1 to 64 are tried.
//
//   forward    | x . . . | x . . . | x . . . |        x kept, . made again
//   backward                       | x . . . | x . . . | x . . . |
#include "tessera/memory/recompute/explore.h"
#include "tessera/memory/recompute/list.h"

namespace tessera {
namespace {

using namespace recomputing;

class Segments : public RecomputeStrategy {
 public:
  std::string_view name() const override { return "segments"; }
  std::string_view explanation() const override {
    return "square-root checkpointing: only what passes between segments is kept";
  }
  std::vector<Runs> ways(const RecomputeProblem& problem) const override {
    const Tables tables(problem);
    Frontier frontier;
    cut_in_segments(tables, frontier);
    return ways_of(tables, frontier);
  }
};

}  // namespace

const RecomputeStrategy& segments_recompute() {
  static const Segments strategy;
  return strategy;
}

}  // namespace tessera
