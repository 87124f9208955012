// A chart of report.html and of others: curves as SVG, with axis titles.
#pragma once

#include <string>
#include <vector>

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

}  // namespace tessera
