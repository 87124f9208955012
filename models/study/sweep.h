// Sweep: trainings with every combination of some settings, one after the other.
//
//   Sweep sweep("resnet.yaml", {"optimizer.lr=0.01,0.1", "seed=1,2,3", "train.epochs=5"});
//   const Sweep::Outcome outcome = sweep.run(print, {});
//   std::cout << compare_runs(outcome.done).text();
//
// The run folders are folders of run.dir named like "optimizer.lr=0.01,seed=2"; sweep.txt in
// run.dir records the settings, and done.txt the runs that have ended.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/models/training/trainer.h"

namespace tessera {

class Sweep {
 public:
  // `words` are overrides; one with several values, separated by commas outside of brackets, is
  // swept, the last one fastest. Throws ConfigError unless there is one and every combination is
  // valid, before any training.
  Sweep(const std::string& config, const std::vector<std::string>& words);

  size_t size() const { return configs_.size(); }

  struct Outcome {
    std::vector<std::string> done;    // run folders
    std::vector<std::string> failed;  // a line with the error of each other run
    int exit_code = 0;                // the first failure's
    int stopped_by = 0;               // signal; the sweep has not ended
  };
  // Trains each run that has not ended, from its last checkpoint. A run that fails does not end the
  // sweep. Calls `print` with a line per run. Throws ConfigError if run.dir contains another sweep,
  // RunFolderError if it cannot be written.
  Outcome run(const Print& print, const TrainOptions& options) const;

 private:
  std::string dir_;
  std::string text_;  // sweep.txt
  std::vector<std::string> names_;
  std::vector<Config> configs_;
};

}  // namespace tessera
