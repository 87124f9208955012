#include "tessera/models/run/report_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tessera {
namespace {

constexpr double kWidth = 560, kHeight = 280, kLeft = 64, kRight = 8, kTop = 28, kBottom = 40;

// The first of 1, 2, 5, 10, ... that cuts a range into at most `parts`.
double tick_of(double range, int parts) {
  double tick = std::pow(10, std::floor(std::log10(range / parts)));
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (range / (tick * factor) <= parts) return tick * factor;
  }
  return tick * 10;
}

std::vector<double> linear_ticks(double low, double high, int parts) {
  std::vector<double> ticks;
  const double step = tick_of(high - low, parts);
  for (double v = std::ceil(low / step) * step; v <= high; v += step) ticks.push_back(v);
  return ticks;
}

// 1, 2, 5, 10, ... or, where they leave a gap that is too wide, as many as on a linear scale.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  for (double ten = std::pow(10, std::floor(std::log10(low))); ten <= high; ten *= 10)
    for (double factor : {1.0, 2.0, 5.0})
      if (ten * factor >= low && ten * factor <= high) ticks.push_back(ten * factor);
  if (ticks.size() < 3) return linear_ticks(low, high, 5);
  if (ticks.size() > 9)  // the powers of ten alone
    std::erase_if(ticks, [](double v) {
      const double power = std::log10(v);
      return std::abs(power - std::round(power)) > 1e-6;
    });
  return ticks;
}

struct Range {
  double x1 = 0, y0 = INFINITY, y1 = -INFINITY;
};

Range range_of(const std::vector<Curve>& curves) {
  Range range;
  for (const Curve& curve : curves) {
    for (const Curve::Point& p : curve.points) {
      range.x1 = std::max(range.x1, p.x);
      range.y0 = std::min(range.y0, p.y);
      range.y1 = std::max(range.y1, p.y);
    }
  }
  if (range.x1 <= 0) range.x1 = 1;
  return range;
}

// A dot where there is but one point: a line to nowhere is not seen.
template <typename X, typename Y>
std::string line_of(const Curve& curve, const X& x, const Y& y) {
  if (curve.points.size() == 1)
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>",
                       x(curve.points[0].x), y(curve.points[0].y), curve.colour);
  std::string path;
  for (const Curve::Point& p : curve.points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : " L", x(p.x), y(p.y));
  }
  return fmt::format("<path d=\"{}\" stroke=\"{}\"/>", path, curve.colour);
}

}  // namespace

std::string chart_svg(const Chart& chart) {
  Range range = range_of(chart.curves);
  if (!(range.y0 <= range.y1)) return "";
  const bool log = chart.log && range.y0 > 0;
  const double size = std::max(std::abs(range.y0), std::abs(range.y1));
  if (range.y1 - range.y0 <= 1e-9 * size) {  // one value: in the middle
    const double margin = size > 0 ? size / 10 : 1;
    range.y1 = log ? range.y1 * 1.1 : range.y1 + margin;
    range.y0 = log ? range.y0 / 1.1 : range.y0 - margin;
  }
  const auto height_of = [&](double v) { return log ? std::log(v) : v; };
  const double low = height_of(range.y0), high = height_of(range.y1);
  const auto x = [&](double v) { return kLeft + v / range.x1 * (kWidth - kLeft - kRight); };
  const auto y = [&](double v) {
    return kHeight - kBottom - (height_of(v) - low) / (high - low) * (kHeight - kTop - kBottom);
  };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"{2}\">"
      "<text x=\"{3}\" y=\"16\" class=\"title\">{2}</text>\n",
      kWidth, kHeight, chart.title, kLeft);
  const std::vector<double> ticks =
      log ? log_ticks(range.y0, range.y1) : linear_ticks(range.y0, range.y1, 5);
  for (double v : ticks)
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
        kLeft, kWidth - kRight, y(v), y(v), kLeft - 6, y(v) + 4, v);
  for (double v : linear_ticks(0, range.x1, 8))
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.4g}</text>\n", x(v),
                       kHeight - kBottom + 16, v);
  const double middle_x = (kLeft + kWidth - kRight) / 2, middle_y = (kTop + kHeight - kBottom) / 2;
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" class=\"axis\">{}</text>"
      "<text transform=\"translate(14,{:.1f}) rotate(-90)\" text-anchor=\"middle\" "
      "class=\"axis\">{}{}</text>\n",
      middle_x, kHeight - 6, chart.x_title, middle_y, chart.y_title, log ? " (log scale)" : "");
  if (chart.best >= 0 && chart.best <= range.x1)
    svg += fmt::format(
        "<line class=\"best\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{3:.1f}\" y=\"{4}\" text-anchor=\"{5}\">best</text>\n",
        x(chart.best), kTop, kHeight - kBottom,
        x(chart.best) + (chart.best > range.x1 / 2 ? -4 : 4), kTop + 10,
        chart.best > range.x1 / 2 ? "end" : "start");
  double legend = kWidth - kRight;
  for (const Curve& curve : chart.curves) {
    if (curve.points.empty()) continue;
    svg += line_of(curve, x, y);
    svg += fmt::format("<text x=\"{}\" y=\"16\" style=\"fill:{}\" text-anchor=\"end\">{}</text>\n",
                       legend, curve.colour, curve.name);
    legend -= 48;
  }
  return svg + "</svg>\n";
}

}  // namespace tessera
