// Whether this machine can run a training, asked before it starts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/runtime/text/json.h"

namespace tessera {

struct Config;        // models/config/config.h
struct TrainOptions;  // models/training/trainer.h

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

// Does what a training does before its first step, without writing anything: opens the data, builds
// the model and plans its steps, then says what training would do. Throws what train() would throw
// before its first step with these options, but that another process may be training in the run
// folder: that it does not look for, as it would have to lock it.
void dry_run(const Config& config, const std::function<void(const std::string& line)>& print,
             const TrainOptions& options);

struct MachineReport {
  std::vector<Finding> findings;
  std::string verdict, remedy;  // the remedy of the worst finding; empty where all is well
  Json figures;                 // what the findings stand on, for machines
  int exit_code = 0;            // of the first problem
};

// Tells whether this machine can train at all, without a configuration (machine_check.cc). Program
// and libraries, with versions built against and running, processor, threads, memory and swap, GPUs
// and why they cannot be used; in builds with CUDA its libraries: which is loaded, which copies
// there are, whether it is the one built with, and the run path; each part of cuDNN is loaded in a
// child process, which a damaged one may end. Then a short training of a product and a convolution,
// timed and held against another way to compute them. Takes a second.
MachineReport examine_machine();

}  // namespace tessera
