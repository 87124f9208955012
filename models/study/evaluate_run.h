// The trained network of a run folder on its test data, or on other data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/run/figures.h"
#include "tessera/models/training/train_options.h"
#include "tessera/models/training/train_result.h"

namespace tessera {

struct RunReport;  // models/run/run_report.h

struct EvaluateOptions {
  // "": weights.safetensors of the run, else those of a checkpoint: "best", "latest" or a file.
  std::string checkpoint = {};
  std::string data = {};  // other data than the run's, as data_overrides() takes it (other_data.h)
  std::vector<std::string> overrides = {};
  bool report = false;
};

// Of the training's figures those of the test, the weights' step and the seconds.
struct RunEvaluation : TrainResult {
  Calibration calibration;
  std::vector<std::string> class_names;     // empty, or one per class
  std::shared_ptr<const RunReport> report;  // null unless it was asked for
};

// Evaluates a run folder. Where the run and the data name their classes, these go by name. Throws
// as train() does.
RunEvaluation evaluate_run(const std::string& run_dir, const EvaluateOptions& options,
                           const Print& print);

}  // namespace tessera
