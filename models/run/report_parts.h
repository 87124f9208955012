// Parts of report.html and of other pages: curves as SVG with axis titles, metrics of evaluations.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/run/metrics.h"

namespace tessera {

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
