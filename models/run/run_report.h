// report.html of a run folder: what a training came to, as one small page without scripts. Of an
// evaluation the same, without metrics.
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
  std::string title;             // "resnet20 on cifar10"
  std::string summary;           // plain text: of the model, of memory; may be empty
  std::vector<Metrics> metrics;  // as in metrics.csv
  const char* phase = "test";    // of which images the following is: test | validation
  ConfusionMatrix confusion;
  Calibration calibration;
  std::vector<std::string> classes;  // names; may be empty
  double top1 = 0, top5 = -1;        // of these, in [0, 1]; -1: not known
  int64_t best_step = -1;            // after which the best checkpoint was written; -1: none
  // Rows of a table: what was trained on what, when, how long; name and plain text.
  std::vector<std::pair<std::string, std::string>> facts;
  std::string config;                       // as YAML; may be empty
  std::vector<Misclassification> mistakes;  // the worst first
};

std::string report_html(const RunReport& report);
// The same in pieces: with its pictures the page is larger than what is asked for at once when
// training is over.
std::vector<std::string> report_pieces(const RunReport& report);

// metrics.csv of a run folder. Lines that are not whole are passed over. Throws DataError when the
// file cannot be read or is no ordinary one.
std::vector<Metrics> read_metrics(const std::string& path);

// A small picture within a page, "data:image/png;base64,...": an image [H x W x C] of one or three
// channels, made smaller by whole factors until no side has more than `most` (up to 128) pixels. ""
// for other counts of channels.
std::string thumbnail_uri(const uint8_t* image, const ImageShape& shape, int most = 64);

}  // namespace tessera
