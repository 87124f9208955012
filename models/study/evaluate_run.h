// evaluate_run(): evaluates the trained network of a run folder on its test data or on other data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/run/metrics.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/training/training.h"

namespace tessera {

struct RunReport;  // models/run/run_report.h

// Returns the overrides of the configuration that `--data DATA` means for a run with the
// configuration `run` and the text `inference` (models/run/inference.h). DATA is a folder of class
// folders or one that has them in test or val, an HDF5 file, or NAME=PATH with a name of
// data_names(). Pictures are resized to the run's size and converted to its channels. The run's
// normalization is kept, as are its options for reading files of the same kind. Throws ConfigError,
// and DataError if nothing is found.
std::vector<std::string> data_overrides(const std::string& data, const Config& run,
                                        const std::string& inference);

// Returns the data with labels mapped by class name to those of the run. Returns `data` itself if
// that changes nothing, or if either names no classes. Calls `print` with the mapping. Throws
// DataError with the names of classes that the run lacks, and similar names; ConfigError if there
// are too many.
std::shared_ptr<const Dataset> under_classes_of(const Config& config, const std::string& inference,
                                                std::shared_ptr<const Dataset> data,
                                                const Print& print);

struct EvaluateOptions {
  std::string data =
      {};  // other data than the run's, needed by a file of weights; see data_overrides()
  std::vector<std::string> overrides = {};
  bool report = false;
};

// The result of an evaluation. TrainResult has only the test metrics, the step of the weights and
// the seconds.
struct RunEvaluation : TrainResult {
  Calibration calibration;
  std::string precision;                    // "float32", "bf16" or "f16"
  std::vector<std::string> class_names;     // empty, or one per class
  std::shared_ptr<const RunReport> report;  // null unless EvaluateOptions::report
};

// Returns the metrics of all classes and their averages; a table of at most `most` classes, else of
// the ten worst.
Report evaluation_report(const RunEvaluation& result, size_t most);

// Evaluates the network of a run folder or a file of weights. Classes are matched by name if both
// the run and the data name them. Throws what train() throws.
RunEvaluation evaluate_run(const NetworkSource& source, const EvaluateOptions& options,
                           const Print& print);

}  // namespace tessera
