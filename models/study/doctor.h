// Whether this machine can run a training, asked before it starts.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/config/config.h"

namespace tessera {

struct Finding {
  std::string what;      // "device", "memory", "data", "run folder", "checkpoint"
  std::string text;      // what was found, or what is wrong and the remedy
  int exit_code = 0;     // 0: well; else what the training would end with
  bool warning = false;  // well, but to be known
};

// Looks at everything a training needs, whatever was found wrong before: the device and the memory,
// each data file, the run folder and the room on its disk, and the checkpoint that --resume would
// go on from, also one that was made on another device. Writes nothing. Decodes every picture of a
// folder once.
std::vector<Finding> examine(const Config& config);

}  // namespace tessera
