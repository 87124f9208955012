// Remedies: settings with which a run fits into memory that it does not fit into as it is, each
// planned before it is offered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/training/run.h"

namespace tessera {

struct Remedy {
  enum class Changes {
    nothing,   // no bit of what is learned
    sums,      // gradients are added in another order, and norms see a part of the batch
    training,  // an update is made of fewer images
  };
  std::string overrides;  // key=value, with a blank between two: "memory.budget=2GiB"
  int64_t bytes = 0;      // needed with them
  double slowdown = 0;    // estimated: 0.02 is 2 % more time for an image
  double price = 0;       // slowdown, and what counts for it where no time is estimated
  Changes changes = Changes::nothing;
  std::string remark;  // "; nothing to resume from"
};

// About what it takes to plan a step, for each of its nodes. No step of more parts is planned that
// takes more than three quarters of the limit, or of 5 MiB.
inline constexpr int64_t kPlanningBytes = 4096;

// Those with which the run needs at most `limit` bytes of the host's memory or of the GPU's: first
// those that change least, of these those of the least price, no more than four of each. Begins no
// plan that would probably not be done in so many seconds.
std::vector<Remedy> remedies(const Run& run, int64_t limit, bool on_gpu, double seconds = 1.2);

// A line for each, or that there are none:
//     memory.budget=9MiB        8.98 MiB   +3.2 % time  same bits
std::string remedies_text(const Run& run, int64_t limit, bool on_gpu);

}  // namespace tessera
