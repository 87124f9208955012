#include "tessera/models/run/metrics.h"

#include <cmath>
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

Table table_of(const std::vector<ClassMetrics>& classes, const std::vector<std::string>& names) {
  Table table({{"label", nullptr},
               {"name", "class", true},
               {"images", "images"},
               {"precision", "precision"},
               {"recall", "recall"},
               {"f1", "F1"}});
  for (const ClassMetrics& c : classes) {
    const std::string name = class_name(names, c.label);
    table.add({c.label,
               {utf8_printable(name), names.empty() ? Json() : name},
               c.images,
               percent(c.precision(), 1),
               percent(c.recall(), 1),
               percent(c.f1(), 1)});
  }
  return table;
}

}  // namespace

void ConfusionMatrix::add(int64_t truth, int64_t prediction) {
  if (truth < 0 || truth >= classes || prediction < 0 || prediction >= classes) return;
  ++counts[static_cast<size_t>(truth * classes + prediction)];
}

std::string ConfusionMatrix::text(int64_t most) const {
  if (classes == 0 || classes > most) return "";
  std::vector<Table::Column> columns{{nullptr, "truth"}};
  for (int64_t p = 0; p < classes; ++p) columns.emplace_back(nullptr, std::to_string(p).c_str());
  Table table(std::move(columns));
  for (int64_t t = 0; t < classes; ++t) {
    std::vector<Cell> row{t};
    for (int64_t p = 0; p < classes; ++p) row.emplace_back(count(t, p));
    table.add(std::move(row));
  }
  return "predicted (columns) and true classes (rows)\n" + table.text();
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

void add_classes(Report& to, const ClassReport& report, const std::vector<std::string>& names,
                 size_t most) {
  std::vector<ClassMetrics> shown = report.classes;
  const bool worst = shown.size() > most;
  if (worst) {
    const auto rank = [](const ClassMetrics& c) { return std::pair(c.images == 0, c.f1()); };
    std::ranges::stable_sort(shown, {}, rank);
    shown.resize(std::min(shown.size(), kWorst));
  }
  Table table = table_of(shown, names);
  for (const auto& [name, mean] :
       {std::pair{"macro average", report.macro}, {"weighted average", report.weighted}})
    table.add({"", name, report.images, percent(mean.precision, 1), percent(mean.recall, 1),
               percent(mean.f1, 1)});
  to.add("classes", table_of(report.classes, names).json()).add(nullptr, "", std::move(table));
  if (worst)
    to.line(fmt::format("the {} of {} classes with the lowest F1; --all-classes shows all",
                        shown.size(), report.classes.size()));
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
