// Draws the parts of run_report.h.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/models/run/run_report.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

const char* const kReportStyle = R"(
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.plan { overflow-x: auto } .big { font-size: 1.2rem } .charts { display: flex; flex-wrap: wrap; gap: 1rem }
svg { max-width: 100%; height: auto } svg text { pointer-events: none } :not(.plan) > svg text { font: 11px system-ui, sans-serif; fill: #7a8594 }
:not(.plan) > svg :is(.title, .axis) { font-size: 12px } :not(.plan) > svg .title { font-size: 13px }
:not(.plan) > svg line { stroke: #8a94a340 } svg line.best { stroke: #228b5a; stroke-dasharray: 4 3 }
svg path { fill: none; stroke-width: 1.6 }
table { border-collapse: collapse } td, th { padding: .15rem .6rem; text-align: right; white-space: nowrap }
.facts td { white-space: normal }
.text, .facts td, .facts th { text-align: left } .facts th { vertical-align: top; color: #7a8594; font-weight: normal }
tr.best, tr.average { font-weight: 600 }
.mistakes { display: flex; flex-wrap: wrap; gap: 1rem } figure { margin: 0; width: 8.5rem }
figure img { width: 96px; height: 96px; object-fit: contain; image-rendering: pixelated; background: #8a94a320 }
figcaption { font-size: 12.5px; line-height: 1.35 }
.matrix g text { font-size: inherit } .matrix .count { fill: currentColor } pre { overflow-x: auto; font-size: 12.5px }
)";

constexpr double kWidth = 560, kHeight = 280, kLeft = 64, kRight = 8, kTop = 34, kBottom = 40;

// Returns the first of 1, 2, 5, 10, ... that divides a range into at most `parts` parts.
double tick_of(double range, int parts) {
  double tick = std::pow(10, std::floor(std::log10(range / parts)));
  for (double factor : {1.0, 2.0, 5.0, 10.0})
    if (range / (tick * factor) <= parts) return tick * factor;
  return tick * 10;
}

std::vector<double> linear_ticks(double low, double high, int parts) {
  std::vector<double> ticks;
  const double step = tick_of(high - low, parts);
  for (double v = std::ceil(low / step) * step; v <= high; v += step) ticks.push_back(v);
  return ticks;
}

// Returns 1, 2, 5, 10, ..., or the ticks of a linear scale if there are fewer than three.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  for (double ten = std::pow(10, std::floor(std::log10(low))); ten <= high; ten *= 10)
    for (double factor : {1.0, 2.0, 5.0})
      if (ten * factor >= low && ten * factor <= high) ticks.push_back(ten * factor);
  if (ticks.size() < 3) return linear_ticks(low, high, 5);
  if (ticks.size() > 9)  // only the powers of ten
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

// Draws a line, or a dot for a single point.
template <typename X, typename Y>
std::string line_of(const Curve& curve, const X& x, const Y& y) {
  const std::string hint =
      fmt::format("<title>{}</title>", html_escaped(curve.hint.empty() ? curve.name : curve.hint));
  if (curve.points.size() == 1)
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\">{}</circle>",
                       x(curve.points[0].x), y(curve.points[0].y), curve.colour, hint);
  std::string path;
  for (const Curve::Point& p : curve.points)
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : " L", x(p.x), y(p.y));
  return fmt::format("<path d=\"{}\" stroke=\"{}\"{}>{}</path>", path, curve.colour,
                     curve.name.empty() ? " stroke-opacity=\"0.35\"" : "", hint);
}

constexpr int64_t kMaxDrawn = 100;  // classes
constexpr size_t kMaxPairs = 12;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

bool is_empty(const ConfusionMatrix& confusion) {
  return std::ranges::all_of(confusion.counts, [](int64_t n) { return n == 0; });
}

std::string name_html(const std::vector<std::string>& names, int64_t label) {
  return html_escaped(class_name(names, label));
}

std::string average_row(const char* name, int64_t images, const ClassAverage& mean) {
  return fmt::format(
      "<tr class=\"average\"><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td></td>"
      "</tr>\n",
      name, images, percent(mean.precision), percent(mean.recall), percent(mean.f1));
}

std::string pairs_html(const ConfusionMatrix& confusion, const std::vector<std::string>& names) {
  const std::vector<ConfusedPair> pairs = most_confused(confusion, kMaxPairs);
  if (pairs.empty()) return "<p>No image was misclassified.</p>\n";
  std::string html =
      "<table><tr><th class=\"text\">class</th><th class=\"text\">predicted as</th><th>images</th>"
      "<th>share of the class</th></tr>\n";
  for (const ConfusedPair& pair : pairs)
    html += fmt::format(
        "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td></tr>\n",
        name_html(names, pair.truth), name_html(names, pair.predicted), pair.images,
        percent(pair.share));
  return html + "</table>\n";
}

// Returns the shade of a wrong cell: a single image is visible, the worst cell is darkest.
double wrong_shade(int64_t count, int64_t most) {
  return 0.18 + 0.72 * std::sqrt(static_cast<double>(count) / static_cast<double>(most));
}

// A drawing of the confusion matrix: a square for each pair that has images, with its count if
// there is space.
class MatrixPicture {
 public:
  MatrixPicture(const ConfusionMatrix& confusion, const std::vector<ClassMetrics>& classes,
                const std::vector<std::string>& names)
      : m_(confusion),
        classes_(classes),
        names_(names),
        cell_(std::clamp<int64_t>(720 / std::ssize(classes), 7, 40)) {
    for (const ClassMetrics& t : classes_)
      for (const ClassMetrics& p : classes_)
        if (t.label != p.label) most_wrong_ = std::max(most_wrong_, m_.count(t.label, p.label));
    size_t longest = 1;
    for (const ClassMetrics& c : classes_) longest = std::max(longest, utf8_length(label(c.label)));
    font_ = std::min<int64_t>(11, cell_ - 1);
    left_ = 28 + static_cast<int64_t>(longest) * font_ * 6 / 10;
  }

  std::string svg() const {
    const int64_t side = cell_ * std::ssize(classes_), size = left_ + side + 2,
                  middle = left_ + side / 2;
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {0} {0}\" width=\"{0}\" height=\"{0}\" role=\"img\" aria-label=\""
        "confusion matrix\" class=\"matrix\"><text x=\"{1}\" y=\"14\" text-anchor=\"middle\" "
        "class=\"axis\">predicted class</text><text transform=\"translate(14,{1}) rotate(-90)\" "
        "text-anchor=\"middle\" class=\"axis\">true class</text>\n<g style=\"font-size:"
        "{2}px\">\n",
        size, middle, font_);
    for (int64_t c = 0; c < std::ssize(classes_); ++c) svg += labels(c);
    for (int64_t t = 0; t < std::ssize(classes_); ++t)
      for (int64_t p = 0; p < std::ssize(classes_); ++p) svg += cell(t, p);
    return svg + fmt::format(
                     "</g><rect x=\"{0}\" y=\"{0}\" width=\"{1}\" height=\"{1}\" fill=\"none\" "
                     "stroke=\"#8a94a380\"/></svg>\n",
                     left_, side);
  }

 private:
  static constexpr size_t kMaxLetters = 18;
  static constexpr int64_t kRoomForCounts = 24;

  std::string label(int64_t c) const {
    std::string name = class_name(names_, c);
    if (utf8_length(name) <= kMaxLetters) return name;
    size_t end = 0;
    for (size_t letters = 0; letters + 1 < kMaxLetters; ++letters) end += utf8_at(name, end).bytes;
    return name.substr(0, end) + "\u2026";
  }

  int64_t label_of(int64_t place) const { return classes_[static_cast<size_t>(place)].label; }

  std::string labels(int64_t place) const {
    const int64_t at = left_ + place * cell_ + cell_ / 2 + font_ / 3;
    return fmt::format(
        "<text x=\"{0}\" y=\"{1}\" text-anchor=\"end\">{2}</text><text transform=\"translate({1},"
        "{0}) rotate(-90)\">{2}</text>\n",
        left_ - 4, at, html_escaped(label(label_of(place))));
  }

  // Returns "" if there are no images.
  std::string cell(int64_t row, int64_t column) const {
    const int64_t t = label_of(row), p = label_of(column), count = m_.count(t, p);
    if (count == 0) return "";
    const int64_t x = left_ + column * cell_, y = left_ + row * cell_;
    const int64_t images = classes_[static_cast<size_t>(row)].images;
    const double share = static_cast<double>(count) / static_cast<double>(images);
    const double shade = t == p ? 0.7 * share : wrong_shade(count, most_wrong_);
    std::string svg = fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{:.2f}\">"
        "<title>{} predicted as {}: {} images, {}</title></rect>\n",
        x, y, cell_, cell_, t == p ? "#228b5a" : "#c83c1e", shade, name_html(names_, t),
        name_html(names_, p), count, percent(share));
    if (cell_ >= kRoomForCounts)
      svg +=
          fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" class=\"count\">{}</text>\n",
                      x + cell_ / 2, y + cell_ / 2 + 4, count);
    return svg;
  }

  const ConfusionMatrix& m_;
  const std::vector<ClassMetrics>& classes_;
  const std::vector<std::string>& names_;
  const int64_t cell_;
  int64_t most_wrong_ = 1, font_ = 0, left_ = 0;
};

// Draws the accuracy of each bin as a bar, with the distance from the mean confidence.
std::string reliability_svg(const Calibration& calibration) {
  constexpr double kSide = 280, kLeft = 56, kTop = 28, kWidth = 352, kHeight = 352;
  constexpr double kBar = kSide / Calibration::kBins;
  const auto height = [](double share) { return kTop + kSide * (1 - share); };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\""
      "reliability diagram\"><text x=\"{2}\" y=\"16\" class=\"title\">reliability</text>\n",
      kWidth, kHeight, kLeft);
  for (int tick = 0; tick <= 100; tick += 20) {
    const double y = height(tick / 100.0), x = kLeft + kSide * tick / 100.0;
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5}</text><text x=\"{6:.1f}\" y=\"{7}\" text-anchor=\"middle\">{5}"
        "</text>\n",
        kLeft, kLeft + kSide, y, kLeft - 6, y + 4, tick, x, kTop + kSide + 16);
  }
  for (size_t k = 0; k < Calibration::kBins; ++k) {
    const Calibration::Bin& bin = calibration.bins[k];
    if (bin.images == 0 || !std::isfinite(bin.confidence_sum)) continue;
    const double right = bin.accuracy(), sure = bin.confidence(), x = kLeft + kBar * k;
    svg += fmt::format(
        "<g><title>{} images, confidence {}, accuracy {}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" "
        "width=\""
        "{:.1f}\" height=\"{:.1f}\" fill=\"#2563c9\" fill-opacity=\"0.75\"/>",
        bin.images, percent(sure), percent(right), x + 0.5, height(right), kBar - 1, kSide * right);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#c83c1e\" "
        "fill-opacity=\"0.45\"/></g>\n",
        x + 0.5, height(std::max(right, sure)), kBar - 1, kSide * std::abs(right - sure));
  }
  return svg + fmt::format(
                   "<line class=\"best\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{3}\"/><text x=\""
                   "{4}\" y=\"{5}\" text-anchor=\"middle\" class=\"axis\">confidence in %</text>"
                   "<text transform=\"translate(14,{6}) rotate(-90)\" text-anchor=\"middle\" "
                   "class=\"axis\">accuracy in %</text></svg>\n",
                   kLeft, kTop + kSide, kLeft + kSide, kTop, kLeft + kSide / 2, kHeight - 6,
                   kTop + kSide / 2);
}

}  // namespace

std::string page_head(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0}</title>\n<style>{1}</style>\n<h1>{0}</h1>\n",
      html_escaped(title), kReportStyle);
}

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
        x(chart.best), kTop, kHeight - kBottom, x(chart.best), kTop - 4,
        chart.best > range.x1 / 2 ? "end" : "start");
  for (const Curve& curve : chart.curves) {
    if (curve.points.empty()) continue;
    svg += line_of(curve, x, y);
  }
  double legend = kWidth - kRight;
  for (auto at = chart.curves.rbegin(); at != chart.curves.rend(); ++at) {
    const Curve& curve = *at;
    if (curve.points.empty() || curve.name.empty()) continue;
    svg += fmt::format("<text x=\"{}\" y=\"16\" style=\"fill:{}\" text-anchor=\"end\">{}</text>\n",
                       legend, curve.colour, html_escaped(curve.name));
    legend -= 12 + 6 * static_cast<double>(utf8_length(curve.name));
  }
  return svg + "</svg>\n";
}

std::string classes_html(const ConfusionMatrix& confusion, const std::vector<std::string>& names) {
  if (is_empty(confusion)) return "";
  const ClassReport report = class_report(confusion);
  std::string html =
      "<h2>Classes</h2><p>Recall: the share of a class's images that are predicted correctly; "
      "precision: the share of the images predicted as that class that are correct; F1: their "
      "harmonic mean. A metric whose divisor is 0 is 0. The macro average counts each of these "
      "classes once; the weighted average counts each by its images.</p>"
      "<table><tr><th>class</th><th>images</th><th>precision</th><th>recall</th><th>F1</th>"
      "<th class=\"text\">most often confused with</th></tr>\n";
  for (const ClassMetrics& c : report.classes) {
    int64_t worst = -1;
    for (int64_t p = 0; p < confusion.classes; ++p) {
      const int64_t count = confusion.count(c.label, p);
      if (p != c.label && count > 0 && (worst < 0 || count > confusion.count(c.label, worst)))
        worst = p;
    }
    html += fmt::format(
        "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
        "class=\"text\">{}</td></tr>\n",
        name_html(names, c.label), c.images, percent(c.precision()), percent(c.recall()),
        percent(c.f1()),
        worst < 0
            ? ""
            : fmt::format("{} ({})", name_html(names, worst), confusion.count(c.label, worst)));
  }
  return html + average_row("macro average", report.images, report.macro) +
         average_row("weighted average", report.images, report.weighted) + "</table>\n";
}

std::string confusion_html(const ConfusionMatrix& confusion,
                           const std::vector<std::string>& names) {
  if (is_empty(confusion)) return "";
  std::string html = "<h2>Confusion</h2>\n" + pairs_html(confusion, names);
  const std::vector<ClassMetrics> classes = class_report(confusion).classes;
  if (std::ssize(classes) > kMaxDrawn) return html;
  return html +
         "<p>Rows: the true class; columns: the predicted class. Green is correct, red is "
         "wrong.</p>\n" +
         MatrixPicture(confusion, classes, names).svg();
}

std::string calibration_html(const Calibration& calibration) {
  const int64_t images = calibration.images();
  if (images == 0) return "";
  int64_t right = 0;
  for (const Calibration::Bin& bin : calibration.bins) right += bin.correct;
  return fmt::format(
      "<h2>Calibration</h2><p>Expected calibration error {:.2f} % ({} bins): the mean "
      "confidence is {}, the accuracy {}. The blue bar of a bin is the accuracy of its images; the "
      "red part is the distance to their mean confidence.</p>\n{}",
      100 * calibration.error(), Calibration::kBins, percent(calibration.confidence()),
      percent(static_cast<double>(right) / static_cast<double>(images)),
      reliability_svg(calibration));
}

}  // namespace tessera
