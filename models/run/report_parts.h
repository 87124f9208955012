// Parts of report.html and of other pages: curves as SVG with axis titles, and what an evaluation
// came to.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/run/metrics.h"

namespace tessera {

struct Curve {
  struct Point {
    double x, y;
  };
  const char* name;
  const char* colour;
  std::vector<Point> points;
};

struct Chart {
  const char* title;    // above it, and for screen readers
  const char* y_title;  // along the axis
  std::vector<Curve> curves;
  bool log = false;  // of y, where all values are above 0
  double best = -1;  // an epoch that is marked; below 0: none
  const char* x_title = "epoch";
};

// x to the right from 0 on, the value upwards; "" where there is nothing to draw.
std::string chart_svg(const Chart& chart);

// The sections that tell what an evaluation came to. Each is "" where there is nothing to show.
//
// Precision, recall and F1 of each class, with what it is mistaken for, and their averages.
std::string classes_html(const ConfusionMatrix& confusion, const std::vector<std::string>& names);
// The pairs that are confused most, and all as a picture where at most 100 classes occur.
std::string confusion_html(const ConfusionMatrix& confusion, const std::vector<std::string>& names);
// The expected calibration error and the reliability diagram.
std::string calibration_html(const Calibration& calibration);

}  // namespace tessera
