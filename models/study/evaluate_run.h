// The trained network of a run folder on its test data, or on other data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/run/metrics.h"
#include "tessera/models/training/trainer.h"

namespace tessera {

struct RunReport;  // models/run/run_report.h

// Returns, as overrides of the configuration, what `--data DATA` means for a run, whose
// configuration and text `inference` (models/run/inference.h) are given. DATA is a folder of class
// folders or one that has them in test or val, an HDF5 file, or NAME=PATH with a name of
// data_names(). Pictures are brought to the run's size and channels; the normalization, and how
// files are read where they are of the run's kind, stay the run's. Throws ConfigError, DataError
// where nothing is there.
std::vector<std::string> data_overrides(const std::string& data, const Config& run,
                                        const std::string& inference);

// The data with the labels that the run gives to classes of these names; as it is where that
// changes nothing, or where one of both names none. `print` is told how classes go. Throws
// DataError naming what classes the run does not have, with those that may be meant; ConfigError
// where there are too many.
std::shared_ptr<const Dataset> under_classes_of(const Config& config, const std::string& inference,
                                                std::shared_ptr<const Dataset> data,
                                                const Print& print);

struct EvaluateOptions {
  // "": weights.safetensors of the run, else those of a checkpoint: "best", "latest" or a file.
  std::string checkpoint = {};
  std::string data = {};  // other data than the run's, as data_overrides() takes it
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
