// Everything runs once: what is read later is kept until then. The yardstick of the others.
//
//   bytes |        ####
//         |     ##########
//         |  ################
//         +-------------------> runs
#include "tessera/memory/recompute/list.h"

namespace tessera {
namespace {

class None : public RecomputeStrategy {
 public:
  std::string_view name() const override { return "none"; }
  std::string_view explanation() const override { return "every step runs once"; }
  std::vector<Runs> ways(const RecomputeProblem& problem) const override {
    return {once_each(problem)};
  }
};

}  // namespace

const RecomputeStrategy& none_recompute() {
  static const None strategy;
  return strategy;
}

}  // namespace tessera
