// Checks before a training starts: examine(), dry_run() and examine_machine(), whether it can run;
// inspect_data() and time_data(), what is in its data, and how fast it is loaded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/report.h"

namespace tessera {

struct Config;        // models/config/config.h
struct TrainOptions;  // models/training/training.h

struct Finding {
  std::string what;      // "device", "memory", "data", "run folder", "checkpoint"
  std::string text;      // the finding, or the problem and its remedy
  int exit_code = 0;     // 0: good; else the exit code of such a training
  bool warning = false;  // good, but worth reading
};

// The findings of a check, and what follows from them.
struct Diagnosis {
  std::vector<Finding> findings;
  // Empty for a configuration. `remedy` is that of the worst finding, or empty.
  std::string verdict, remedy;
  Json figures;  // details of the findings

  int exit_code() const;  // that of the first problem
  Report report() const;
};

// Checks everything that a training needs, and continues after a problem: the device and the
// memory, each data file, the run folder and the free space on its disk, and the checkpoint that
// --resume would use, even one made on another device. Writes nothing. Decodes every picture of a
// folder once.
Diagnosis examine(const Config& config);

// Does everything that a training does before its first step, without writing: opens the data,
// builds the model and plans its steps, then prints what the training would do. Throws what train()
// would throw before its first step, except if another process is training in the run folder:
// checking that would lock the folder.
void dry_run(const Config& config, const std::function<void(const std::string& line)>& print,
             const TrainOptions& options);

// Checks whether this computer can train at all, without a configuration (machine_check.cc).
// Reports the program and its libraries, with the versions built against and running, processor,
// threads, memory and swap, GPUs and why they cannot be used; in builds with CUDA its libraries:
// the loaded file, all copies, whether it is the one built with, and the run path. Loads each part
// of cuDNN in a child process, because a damaged one may crash. Then trains briefly, with a matrix
// product and a convolution, timed and compared with another implementation. Takes a second.
Diagnosis examine_machine();

// Reads every image of training, validation and test, and returns for each: the set, the sizes of
// its images, mean and std, the images of each class, and stray or damaged files. Calls `each` with
// one of them as soon as it is read. Throws DataError where opening or reading the data does.
Report inspect_data(const Config& config, const std::function<void(const Report&)>& each = {});

// Runs the training pipeline alone for at least so many seconds, and returns images per second, the
// time of its workers by kind of work, and its memory, calculated and measured.
Report time_data(const Config& config, double seconds);

}  // namespace tessera
