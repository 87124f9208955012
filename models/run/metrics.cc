#include "tessera/models/run/metrics.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

constexpr size_t kWorst = 10;

// Returns the averages weighted by weight(c); 0 if all weights are 0.
template <typename Weight>
ClassAverage average(const std::vector<ClassMetrics>& classes, const Weight& weight) {
  ClassAverage sum;
  double all = 0;
  for (const ClassMetrics& c : classes) {
    const double w = weight(c);
    sum.precision += w * c.precision();
    sum.recall += w * c.recall();
    sum.f1 += w * c.f1();
    all += w;
  }
  if (all == 0) return {};
  return {sum.precision / all, sum.recall / all, sum.f1 / all};
}

// Pads the text to `width` columns; fmt would count bytes in some locales.
std::string padded(const std::string& text, size_t width) {
  const size_t length = utf8_length(text);
  return text + std::string(length < width ? width - length : 0, ' ');
}

std::string metrics_text(double precision, double recall, double f1) {
  return fmt::format("{:>9.1f} %{:>7.1f} %{:>6.1f} %", 100 * precision, 100 * recall, 100 * f1);
}

}  // namespace

void ConfusionMatrix::add(int64_t truth, int64_t prediction) {
  if (truth < 0 || truth >= classes || prediction < 0 || prediction >= classes) return;
  ++counts[static_cast<size_t>(truth * classes + prediction)];
}

std::string ConfusionMatrix::text(int64_t most) const {
  if (classes == 0 || classes > most) return "";
  std::string text = "truth \\ predicted";
  for (int64_t p = 0; p < classes; ++p) text += fmt::format("{:>6}", p);
  text += '\n';
  for (int64_t t = 0; t < classes; ++t) {
    text += fmt::format("{:>17}", t);
    for (int64_t p = 0; p < classes; ++p) text += fmt::format("{:>6}", count(t, p));
    text += '\n';
  }
  return text;
}

ClassReport class_report(const ConfusionMatrix& confusion) {
  ClassReport report;
  for (int64_t c = 0; c < confusion.classes; ++c) {
    ClassMetrics metrics{.label = c, .correct = confusion.count(c, c)};
    for (int64_t other = 0; other < confusion.classes; ++other) {
      metrics.images += confusion.count(c, other);
      metrics.predicted += confusion.count(other, c);
    }
    report.images += metrics.images;
    report.correct += metrics.correct;
    if (metrics.images + metrics.predicted > 0) report.classes.push_back(metrics);
  }
  report.macro = average(report.classes, [](const ClassMetrics&) { return 1.0; });
  report.weighted =
      average(report.classes, [](const ClassMetrics& c) { return static_cast<double>(c.images); });
  return report;
}

std::vector<ConfusedPair> most_confused(const ConfusionMatrix& confusion, size_t most) {
  std::vector<ConfusedPair> pairs;
  for (int64_t t = 0; t < confusion.classes; ++t) {
    int64_t images = 0;
    for (int64_t p = 0; p < confusion.classes; ++p) images += confusion.count(t, p);
    for (int64_t p = 0; p < confusion.classes; ++p)
      if (const int64_t count = confusion.count(t, p); t != p && count > 0)
        pairs.push_back({t, p, count, static_cast<double>(count) / static_cast<double>(images)});
  }
  std::ranges::stable_sort(pairs, std::greater(), &ConfusedPair::images);
  if (pairs.size() > most) pairs.resize(most);
  return pairs;
}

std::string class_name(const std::vector<std::string>& names, int64_t label) {
  const auto i = static_cast<size_t>(label);
  return i < names.size() ? names[i] : std::to_string(label);
}

std::string class_table(const ClassReport& report, const std::vector<std::string>& names,
                        size_t most) {
  std::vector<ClassMetrics> shown = report.classes;
  const bool worst = shown.size() > most;
  if (worst) {
    const auto rank = [](const ClassMetrics& c) { return std::pair(c.images == 0, c.f1()); };
    std::ranges::stable_sort(shown, {}, rank);
    shown.resize(std::min(shown.size(), kWorst));
  }
  size_t width = std::string_view("weighted average").size();
  for (const ClassMetrics& c : shown)
    width = std::max(width, utf8_length(utf8_printable(class_name(names, c.label))));
  std::string text = padded("class", width) + "    images  precision   recall      F1\n";
  for (const ClassMetrics& c : shown)
    text += fmt::format("{}{:>10}{}\n", padded(utf8_printable(class_name(names, c.label)), width),
                        c.images, metrics_text(c.precision(), c.recall(), c.f1()));
  for (const auto& [name, mean] :
       {std::pair{"macro average", report.macro}, {"weighted average", report.weighted}})
    text += fmt::format("{}{:>10}{}\n", padded(name, width), report.images,
                        metrics_text(mean.precision, mean.recall, mean.f1));
  if (worst)
    text += fmt::format("the {} of {} classes with the lowest F1; --all-classes shows all\n",
                        shown.size(), report.classes.size());
  return text;
}

double mean_of(double sum, int64_t images) {
  const double value = sum / static_cast<double>(images);
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

void Calibration::add(double confidence, bool is_correct) {
  // The product with a float32 is exact, so bin edges are as the header says.
  const double above = std::isfinite(confidence) ? std::ceil(confidence * kBins) - 1 : 0;
  Bin& bin = bins[static_cast<size_t>(std::clamp<double>(above, 0, kBins - 1))];
  ++bin.images;
  bin.correct += is_correct ? 1 : 0;
  bin.confidence_sum += confidence;
}

int64_t Calibration::images() const {
  int64_t sum = 0;
  for (const Bin& bin : bins) sum += bin.images;
  return sum;
}

double Calibration::confidence() const {
  double sum = 0;
  for (const Bin& bin : bins) sum += bin.confidence_sum;
  return mean_of(sum, images());
}

double Calibration::error() const {
  double sum = 0;
  for (const Bin& bin : bins)
    sum += std::abs(static_cast<double>(bin.correct) - bin.confidence_sum);
  return mean_of(sum, images());
}

}  // namespace tessera
