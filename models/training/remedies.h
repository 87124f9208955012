// Remedies: settings with which a run fits into a given amount of memory, each planned before it is
// suggested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/training/run.h"

namespace tessera {

struct Remedy {
  enum class Changes {
    nothing,   // learned bits stay the same
    sums,      // gradients are summed in another order, and norms see a part of the batch
    training,  // an update is made from fewer images
  };
  std::string overrides;  // key=value pairs, separated by blanks: "memory.budget=2GiB"
  int64_t bytes = 0;      // needed with these overrides
  double slowdown = 0;    // estimated: 0.02 is 2 % more time per image
  double price = 0;       // slowdown, plus a fixed price for effects without an estimate
  Changes changes = Changes::nothing;
  std::string remark;  // "; nothing to resume from"
};

// The approximate memory that planning a step takes per node. A step of more parts is not planned
// if it takes more than three quarters of the limit or of 5 MiB, whichever is larger.
inline constexpr int64_t kPlanningBytes = 4096;

// Returns settings with which the run needs at most `limit` bytes of the host's memory or of the
// GPU's: smallest change first, then lowest price, at most four of each kind of change. Starts no
// plan that would probably not be finished within `seconds`.
std::vector<Remedy> remedies(const Run& run, int64_t limit, bool on_gpu, double seconds = 1.2);

// Returns a line for each remedy, or a line that there are none:
//     memory.budget=9MiB        8.98 MiB   +3.2 % time  same bits
std::string remedies_text(const Run& run, int64_t limit, bool on_gpu);

}  // namespace tessera
