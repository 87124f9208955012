// compare_runs(): the settings and the results of several run folders side by side.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/models/run/metrics.h"
#include "tessera/models/run/run_folder.h"
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

}  // namespace tessera
