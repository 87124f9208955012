// report.html of a run folder: one small page without scripts, with the results of a training or,
// without metrics, of an evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/models/data/dataset.h"
#include "tessera/models/run/metrics.h"
#include "tessera/models/run/run_folder.h"

namespace tessera {

struct RunReport {
  std::string title;              // "resnet20 on cifar10"
  std::string summary;            // plain text about model and memory; may be empty
  std::vector<std::string> plan;  // pieces of the SVG of the plan of a step; may be empty
  std::vector<Metrics> metrics;   // lines of metrics.csv
  const char* phase = "test";     // images of the members below: test | validation
  ConfusionMatrix confusion;
  Calibration calibration;
  std::vector<std::string> classes;  // names; may be empty
  double top1 = 0, top5 = -1;        // accuracies in [0, 1]; -1: unknown
  int64_t best_step = -1;            // step of the best checkpoint; -1: none
  // Rows of a table with model, data, dates and durations: name and plain text.
  std::vector<std::pair<std::string, std::string>> facts;
  std::string config;                       // print_config(); may be empty
  std::vector<Misclassification> mistakes;  // the worst first
};

std::string report_html(const RunReport& report);
// Returns the report in pieces: with its pictures the page is larger than any allocation at the end
// of training should be.
std::vector<std::string> report_pieces(const RunReport& report);

// Returns "data:image/png;base64,..." for an image [H x W x C] of one or three channels, reduced by
// an integer factor so that no side has more than `most` (up to 128) pixels. "" for other numbers
// of channels.
std::string thumbnail_uri(const uint8_t* image, const ImageShape& shape, int most = 64);

}  // namespace tessera
