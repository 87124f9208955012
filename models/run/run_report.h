// report.html of a run folder: one small page without scripts, with the results of a training or,
// without metrics, of an evaluation; and its parts for other pages: curves as SVG with axis titles,
// metrics of evaluations.
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

struct Curve {
  struct Point {
    double x, y;
  };
  std::string name;  // in the legend; "": none, and the line is pale
  std::string colour;
  std::vector<Point> points;
  std::string hint = {};  // shown by the browser over the line; "": the name
};

struct Chart {
  const char* title;    // above the chart, and for screen readers
  const char* y_title;  // along the axis
  std::vector<Curve> curves;
  bool log = false;  // logarithmic y axis, if all values are above 0
  double best = -1;  // marked epoch; below 0: none
  const char* x_title = "epoch";
};

// Returns the begin of a page in HTML up to its heading, which is `title`; light and dark. kPageEnd
// ends it.
std::string page_head(const std::string& title);
inline constexpr const char* kPageEnd = "</html>\n";

// Returns SVG with x from 0 on; "" if there is nothing to draw.
std::string chart_svg(const Chart& chart);

// Sections for the metrics of an evaluation. Each function returns "" if there is nothing to show.
//
// Returns precision, recall and F1 of each class, with its most frequent wrong prediction, and
// their averages.
std::string classes_html(const ConfusionMatrix& confusion, const std::vector<std::string>& names);
// Returns the most confused pairs, and a drawing of the matrix if at most 100 classes occur.
std::string confusion_html(const ConfusionMatrix& confusion, const std::vector<std::string>& names);
// Returns the expected calibration error and the reliability diagram.
std::string calibration_html(const Calibration& calibration);

}  // namespace tessera
