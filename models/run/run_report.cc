#include "tessera/models/run/run_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/html.h"

namespace tessera {
namespace {

struct Point {
  double x, y;
};
struct Curve {
  const char* name;
  const char* colour;
  std::vector<Point> points;
};

// The phase as a text that stays; nullptr for another word.
const char* phase_of(std::string_view word) {
  for (const char* phase : {"train", "validation", "test"})
    if (word == phase) return phase;
  return nullptr;
}

// Of the training's loss and accuracy: whole epochs, and the last line; where there are fewer than
// two of those, all lines.
Curve curve_of(const std::vector<Metrics>& metrics, std::string_view phase, const char* colour,
               double Metrics::*value, double scale) {
  Curve all{phase_of(phase), colour, {}}, whole = all;
  for (const Metrics& m : metrics) {
    if (phase != m.phase || !std::isfinite(m.*value)) continue;
    all.points.push_back({m.epoch, scale * (m.*value)});
    if (m.epoch == std::floor(m.epoch)) whole.points.push_back(all.points.back());
  }
  if (phase != "train" || value == &Metrics::lr || whole.points.size() < 2) return all;
  if (whole.points.back().x != all.points.back().x) whole.points.push_back(all.points.back());
  return whole;
}

// The first of 1, 2, 5, 10, ... that cuts a range into at most `parts`.
double tick_of(double range, int parts) {
  double tick = std::pow(10, std::floor(std::log10(range / parts)));
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (range / (tick * factor) <= parts) return tick * factor;
  }
  return tick * 10;
}

// A dot where there is but one point: a line to nowhere is not seen.
template <typename X, typename Y>
std::string line_of(const Curve& curve, const X& x, const Y& y) {
  if (curve.points.size() == 1)
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>",
                       x(curve.points[0].x), y(curve.points[0].y), curve.colour);
  std::string path;
  for (const Point& p : curve.points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : " L", x(p.x), y(p.y));
  }
  return fmt::format("<path d=\"{}\" stroke=\"{}\"/>", path, curve.colour);
}

// Epochs to the right, the value upwards.
std::string chart(const char* title, const std::vector<Curve>& curves) {
  constexpr double kWidth = 560, kHeight = 260, kLeft = 52, kTop = 28, kBottom = 24;
  double x1 = 0, y0 = INFINITY, y1 = -INFINITY;
  for (const Curve& curve : curves) {
    for (const Point& p : curve.points) {
      x1 = std::max(x1, p.x);
      y0 = std::min(y0, p.y);
      y1 = std::max(y1, p.y);
    }
  }
  if (!(y0 <= y1)) return "";
  if (x1 <= 0) x1 = 1;
  const double size = std::max(std::abs(y0), std::abs(y1));
  if (y1 - y0 <= 1e-9 * size) {  // one value: in the middle
    y0 -= size > 0 ? size / 10 : 1;
    y1 += size > 0 ? size / 10 : 1;
  }
  const auto x = [&](double v) { return kLeft + v / x1 * (kWidth - kLeft - 8); };
  const auto y = [&](double v) {
    return kHeight - kBottom - (v - y0) / (y1 - y0) * (kHeight - kTop - kBottom);
  };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"{2}\">"
      "<text x=\"{3}\" y=\"16\" class=\"title\">{2}</text>\n",
      kWidth, kHeight, title, kLeft);
  const double step_y = tick_of(y1 - y0, 5), step_x = tick_of(x1, 8);
  for (double v = std::ceil(y0 / step_y) * step_y; v <= y1; v += step_y) {
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
        kLeft, kWidth - 8, y(v), y(v), kLeft - 6, y(v) + 4, v);
  }
  for (double v = 0; v <= x1; v += step_x) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.4g}</text>\n", x(v),
                       kHeight - 6, v);
  }
  double legend = kWidth - 8;
  for (const Curve& curve : curves) {
    if (curve.points.empty()) continue;
    svg += line_of(curve, x, y);
    svg += fmt::format("<text x=\"{}\" y=\"16\" style=\"fill:{}\" text-anchor=\"end\">{}</text>\n",
                       legend, curve.colour, curve.name);
    legend -= 24 + 6 * static_cast<double>(std::string_view(curve.name).size());
  }
  return svg + "</svg>\n";
}

std::string matrix_html(const RunReport& report) {
  const ConfusionMatrix& m = report.confusion;
  if (m.classes == 0 || m.classes > 100) return "";
  const auto name = [&](int64_t c) {
    const auto i = static_cast<size_t>(c);
    return i < report.classes.size() ? html_escaped(report.classes[i]) : std::to_string(c);
  };
  std::string html =
      "<h2>Confusion</h2><p>Rows: what an image is; columns: what it is taken for.</p>"
      "<table class=\"matrix\"><tr><th></th>";
  for (int64_t c = 0; c < m.classes; ++c) html += fmt::format("<th>{}</th>", name(c));
  html += "<th>right</th></tr>\n";
  for (int64_t t = 0; t < m.classes; ++t) {
    const int64_t* row = m.counts.data() + t * m.classes;
    int64_t sum = 0;
    for (int64_t p = 0; p < m.classes; ++p) sum += row[p];
    html += fmt::format("<tr><th>{}</th>", name(t));
    for (int64_t p = 0; p < m.classes; ++p) {
      const double share = sum > 0 ? static_cast<double>(row[p]) / static_cast<double>(sum) : 0;
      html += fmt::format("<td style=\"background:rgba({},{:.2f})\">{}</td>",
                          t == p ? "34,139,90" : "200,60,30",
                          std::min(1.0, t == p ? share * 0.5 : share * 2), row[p]);
    }
    html +=
        fmt::format("<td>{:.1f} %</td></tr>\n",
                    sum > 0 ? 100.0 * static_cast<double>(row[t]) / static_cast<double>(sum) : 0);
  }
  return html + "</table>\n";
}

std::string epochs_html(const std::vector<Metrics>& metrics) {
  std::string html =
      "<h2>Evaluations</h2><table><tr><th>epoch</th><th>step</th><th>images</th><th>loss</th>"
      "<th>accuracy</th><th>train loss</th><th>train accuracy</th><th>lr</th></tr>\n";
  const Metrics* trained = nullptr;  // the line of the same step, or none
  for (const Metrics& m : metrics) {
    if (std::string_view(m.phase) == "train") {
      trained = &m;
      continue;
    }
    const bool same = trained != nullptr && trained->step == m.step;
    html += fmt::format(
        "<tr><td>{:.4g}</td><td>{}</td><td>{}</td><td>{:.4f}</td><td>{:.2f} %</td><td>{}</td>"
        "<td>{}</td><td>{:.4g}</td></tr>\n",
        m.epoch, m.step, m.phase, m.loss, 100 * m.accuracy,
        same ? fmt::format("{:.4f}", trained->loss) : "",
        same ? fmt::format("{:.2f} %", 100 * trained->accuracy) : "", m.lr);
  }
  html += "</table>\n";
  const bool validated = std::any_of(metrics.begin(), metrics.end(), [](const Metrics& m) {
    return std::string_view(m.phase) == "validation";
  });
  if (validated) return html;
  return html +
         "<p>All of these are of the test images: the best of these was chosen on them, and "
         "is no test any more (data.validation keeps them apart).</p>\n";
}

std::string summary_html(const RunReport& report) {
  if (report.summary.empty()) return "";
  return fmt::format("<h2>Model and memory</h2>\n<pre>{}</pre>\n", html_escaped(report.summary));
}

constexpr const char* kStyle = R"(
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.big { font-size: 1.2rem } .charts { display: flex; flex-wrap: wrap; gap: 1rem }
svg { max-width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: #7a8594 }
svg .title { font-size: 13px } svg line { stroke: #8a94a340 } svg path { fill: none; stroke-width: 1.6 }
table { border-collapse: collapse } td, th { padding: .15rem .6rem; text-align: right }
.matrix { display: block; overflow-x: auto } pre { overflow-x: auto; font-size: 12.5px }
)";

}  // namespace

std::string report_html(const RunReport& report) {
  const std::vector<Metrics>& m = report.metrics;
  const char *blue = "#2563c9", *orange = "#d9730d", *green = "#1d8a5a";
  std::string result = fmt::format("<p class=\"big\">{:.2f} % of the {} images are right",
                                   100 * report.top1, report.phase);
  if (report.top5 >= 0) result += fmt::format(", {:.2f} % among the first five", 100 * report.top5);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><meta "
      "charset=\"utf-8\"><title>{0}</title>\n<style>{1}</style>\n"
      "<h1>{0}</h1>\n{2}.</p>\n<div class=\"charts\">{3}{4}{5}</div>\n{6}{7}"
      "{8}</html>\n",
      html_escaped(report.title), kStyle, result,
      chart("accuracy in %", {curve_of(m, "test", orange, &Metrics::accuracy, 100),
                              curve_of(m, "validation", green, &Metrics::accuracy, 100),
                              curve_of(m, "train", blue, &Metrics::accuracy, 100)}),
      chart("loss", {curve_of(m, "test", orange, &Metrics::loss, 1),
                     curve_of(m, "validation", green, &Metrics::loss, 1),
                     curve_of(m, "train", blue, &Metrics::loss, 1)}),
      chart("learning rate", {curve_of(m, "train", blue, &Metrics::lr, 1)}), epochs_html(m),
      matrix_html(report), summary_html(report));
}

std::vector<Metrics> read_metrics(const std::string& path) {
  std::ifstream in(path);
  std::error_code error;  // a device would never end
  if (!in || !std::filesystem::is_regular_file(path, error))
    throw DataError(fmt::format("{}: cannot be read", path));
  std::vector<Metrics> metrics;
  std::string line;
  std::getline(in, line);  // the names
  while (std::getline(in, line)) {
    std::vector<std::string> fields(1);
    for (char c : line) {
      if (c == ',')
        fields.emplace_back();
      else
        fields.back() += c;
    }
    if (fields.size() != 7 || phase_of(fields[2]) == nullptr) continue;
    const auto number = [&](size_t i) {
      double value = NAN;  // an empty field
      std::from_chars(fields[i].data(), fields[i].data() + fields[i].size(), value);
      return value;
    };
    Metrics m;
    m.epoch = number(0);
    m.step = static_cast<int64_t>(number(1));
    m.phase = phase_of(fields[2]);
    m.loss = number(3);
    m.accuracy = number(4);
    m.lr = number(5);
    m.images_per_second = number(6);
    metrics.push_back(m);
  }
  return metrics;
}

}  // namespace tessera
