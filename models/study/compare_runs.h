// Several trainings: compare_runs() shows their settings and results side by side, a Sweep runs
// them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/models/run/run_folder.h"
#include "tessera/models/training/training.h"
#include "tessera/runtime/text/report.h"

namespace tessera {

// The content of a run folder. A run that has not ended has the results so far.
struct ComparedRun {
  std::string dir;
  std::map<std::string, std::string> settings;  // in config.resolved.yaml
  std::vector<Metrics> metrics;
  bool ended = false;             // weights.safetensors is written
  int64_t steps = 0, memory = 0;  // memory: bytes in memory.csv
  double epochs = 0;
  // NaN if unknown. Accuracies in [0, 1], of the last and the best evaluation of `phase`.
  double train_loss = NAN, last = NAN, best = NAN;
  double images_per_second = NAN, data_wait = NAN;  // medians of the training lines
};

// The mean and the sample standard deviation of runs that have ended and differ in nothing but the
// seed.
struct SeedSpread {
  std::vector<size_t> runs;
  double mean = 0, deviation = 0;  // for ComparedRun::last
};

struct RunComparison {
  std::vector<ComparedRun> runs;
  const char* phase = "test";               // test | validation images, for accuracies
  std::vector<std::string> different;       // keys, sorted; without run.dir
  std::vector<std::string> different_data;  // those of them that select other images
  std::vector<SeedSpread> spreads;          // at least two runs each

  Report report() const;
  std::string html() const;  // one page, without scripts; light and dark
};

// Reads the folders, at least one. Throws ConfigError for a folder that is no run, DataError for
// one without metrics.
RunComparison compare_runs(const std::vector<std::string>& dirs);

struct SweepOutcome {
  std::vector<std::string> done;    // run folders
  std::vector<std::string> failed;  // a line with the error of each other run
  int exit_code = 0;                // the first failure's
  int stopped_by = 0;               // signal; the sweep has not ended
};

// Trains with every combination of some settings, one after the other:
//
//   const SweepOutcome outcome =
//       sweep("resnet.yaml", {"optimizer.lr=0.01,0.1", "seed=1,2,3", "train.epochs=5"}, print, {});
//   std::cout << compare_runs(outcome.done).report().text();
//
// `words` are overrides; one with several values, separated by commas outside of brackets, is
// swept, the last one fastest. The run folders are folders of run.dir named like
// "optimizer.lr=0.01,seed=2"; sweep.txt in run.dir records the settings, and done.txt the runs that
// have ended. Trains each run that has not ended, from its last checkpoint. A run that fails does
// not end the sweep. Calls `print` with a line per run. Throws ConfigError, before any training,
// unless there is a swept override and every combination is valid, or if run.dir contains another
// sweep; RunFolderError if it cannot be written.
SweepOutcome sweep(const std::string& config, const std::vector<std::string>& words,
                   const Print& print, const TrainOptions& options);

}  // namespace tessera
