// Step by step down from no recomputation: of all values that wait for a later reader while too
// many bytes are live, the one is forgotten that frees most bytes x runs for what it costs to make
// it again. What is made again may be forgotten again after its reader.
//
//   bytes | ##        each block to the right costs more for what it frees
//         | ####
//         | ########
//         | ##################
//         +--------------------> cost
#include "tessera/memory/recompute/explore.h"
#include "tessera/memory/recompute/list.h"

namespace tessera {
namespace {

using namespace recomputing;

class Greedy : public RecomputeStrategy {
 public:
  std::string_view name() const override { return "greedy"; }
  std::string_view explanation() const override {
    return "forgets what frees most bytes x time for its cost, one value after the other";
  }
  std::vector<Runs> ways(const RecomputeProblem& problem) const override {
    const Tables tables(problem);
    Frontier frontier;
    go_down(tables, false, frontier);
    return ways_of(tables, frontier);
  }
};

}  // namespace

const RecomputeStrategy& greedy_recompute() {
  static const Greedy strategy;
  return strategy;
}

}  // namespace tessera
