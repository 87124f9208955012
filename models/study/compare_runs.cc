#include "tessera/models/study/compare_runs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config.h"
#include "tessera/models/run/report_parts.h"
#include "tessera/models/run/run_report.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/html.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

using Rows = std::vector<std::vector<std::string>>;

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return NAN;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Returns the sum of the blocks in the text of memory.csv.
int64_t bytes_in(const std::string& memory) {
  int64_t sum = 0;
  for (size_t at = 0; (at = memory.find(',', at)) != memory.npos;) {
    int64_t bytes = 0;
    std::from_chars(memory.data() + ++at, memory.data() + memory.size(), bytes);
    sum += bytes;
  }
  return sum;
}

ComparedRun read_run(const std::string& dir) {
  std::error_code error;
  if (!std::filesystem::exists(resolved_config_path(dir), error))
    throw ConfigError(fmt::format("compare: '{}' is no run folder; use folders of trainings", dir));
  ComparedRun run;
  run.dir = dir;
  run.settings = config_values(print_config(load_resolved_config(resolved_config_path(dir))));
  run.metrics = read_metrics(dir + "/metrics.csv");
  run.ended = std::filesystem::exists(weights_path(dir), error);
  run.memory = bytes_in(run_file(dir, "memory.csv"));
  std::vector<double> speeds, waits;
  for (const Metrics& m : run.metrics) {
    run.steps = std::max(run.steps, m.step);
    run.epochs = std::max(run.epochs, m.epoch);
    if (std::string_view(m.phase) != "train") continue;
    run.train_loss = m.loss;
    speeds.push_back(m.images_per_second);
    waits.push_back(m.data_wait);
  }
  run.images_per_second = median(speeds), run.data_wait = median(waits);
  return run;
}

bool has_phase(const ComparedRun& run, std::string_view phase) {
  return std::ranges::any_of(run.metrics, [&](const Metrics& m) { return phase == m.phase; });
}

std::string value_of(const ComparedRun& run, const std::string& key) {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? "" : found->second;
}

std::vector<std::string> different_keys(const std::vector<ComparedRun>& runs) {
  std::set<std::string> keys;
  for (const ComparedRun& run : runs)
    for (const auto& [key, value] : run.settings)
      if (key != "run.dir" && value != value_of(runs[0], key)) keys.insert(key);
  for (const auto& [key, value] : runs[0].settings)  // keys that another run lacks
    for (const ComparedRun& run : runs)
      if (key != "run.dir" && value != value_of(run, key)) keys.insert(key);
  return {keys.begin(), keys.end()};
}

bool selects_images(const std::string& key) {
  for (const char* known :
       {"name", "root", "labels", "images", "image_size", "train_count", "test_count",
        "test_fraction", "validation", "channels", "damaged", "range", "layout"})
    if (key == std::string("data.") + known) return true;
  return false;
}

std::vector<SeedSpread> spreads_of(const RunComparison& all) {
  std::map<std::string, SeedSpread> groups;
  for (size_t k = 0; k < all.runs.size(); ++k) {
    const ComparedRun& run = all.runs[k];
    std::string key = fmt::format("{} steps\n", run.steps);
    for (const std::string& name : all.different)
      if (name != "seed") key += name + "=" + value_of(run, name) + "\n";
    if (run.ended && std::isfinite(run.last)) groups[key].runs.push_back(k);
  }
  std::vector<SeedSpread> spreads;
  for (auto& [key, spread] : groups) {
    const auto count = static_cast<double>(spread.runs.size());
    if (count < 2) continue;
    for (const size_t k : spread.runs) spread.mean += all.runs[k].last / count;
    for (const size_t k : spread.runs)
      spread.deviation += std::pow(all.runs[k].last - spread.mean, 2) / (count - 1);
    spread.deviation = std::sqrt(spread.deviation);
    spreads.push_back(std::move(spread));
  }
  std::ranges::sort(spreads, {}, [](const SeedSpread& spread) { return spread.runs[0]; });
  return spreads;
}

std::string shown(double value, const char* format, double scale = 1) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), scale * value) : "";
}

// Returns the heads of the columns, then a row per run.
Rows table_of(const RunComparison& all) {
  Rows rows(1);
  rows[0] = {"", "run"};
  rows[0].insert(rows[0].end(), all.different.begin(), all.different.end());
  for (const std::string& head :
       {std::string("epochs"), std::string("train loss"), std::string(all.phase),
        std::string("best"), std::string("images/s"), std::string("wait"), std::string("memory")})
    rows[0].push_back(head);
  for (const ComparedRun& run : all.runs) {
    std::vector<std::string> row{fmt::format("{}", rows.size()),
                                 run.dir + (run.ended ? "" : " (not ended)")};
    for (const std::string& key : all.different) row.push_back(value_of(run, key));
    row.push_back(fmt::format("{:.4g}", run.epochs));
    row.push_back(shown(run.train_loss, "{:.4f}"));
    row.push_back(shown(run.last, "{:.2f} %", 100));
    row.push_back(shown(run.best, "{:.2f} %", 100));
    row.push_back(shown(run.images_per_second, "{:.0f}"));
    row.push_back(shown(run.data_wait, "{:.0f} %", 100));
    row.push_back(byte_text(run.memory));
    rows.push_back(std::move(row));
  }
  return rows;
}

// Returns remarks on other data and on the spread over seeds.
std::vector<std::string> remarks_on(const RunComparison& all) {
  std::vector<std::string> lines;
  if (!all.different_data.empty())
    lines.push_back(
        fmt::format("the runs are on other data ({}), so their accuracies cannot be compared",
                    fmt::join(all.different_data, ", ")));
  const bool drawn = std::string_view(all.phase) == "validation" &&
                     std::ranges::find(all.different, "seed") != all.different.end();
  if (drawn) lines.emplace_back("data.validation may draw other images for another seed");
  for (const SeedSpread& spread : all.spreads) {
    std::vector<size_t> numbers;
    for (const size_t k : spread.runs) numbers.push_back(k + 1);
    lines.push_back(fmt::format("runs {}, equal but for the seed: {} accuracy {:.2f} % +- {:.2f}",
                                fmt::join(numbers, ", "), all.phase, 100 * spread.mean,
                                100 * spread.deviation));
  }
  return lines;
}

// Ten colours that differ on white and on black.
const char* colour_of(size_t run) {
  constexpr const char* kColours[] = {"#2563c9", "#d9730d", "#1d8a5a", "#c2374f", "#7c5cd6",
                                      "#0e8a9c", "#b0539c", "#8a7414", "#6b7785", "#5b8f2a"};
  return kColours[run % std::size(kColours)];
}

std::string chart_of(const RunComparison& all, const char* title, std::string_view phase,
                     double Metrics::*value, double scale, bool log) {
  Chart chart{title, title, {}, log};
  for (size_t k = 0; k < all.runs.size(); ++k) {
    Curve curve{fmt::format("{}", k + 1), colour_of(k), {}, all.runs[k].dir};
    for (const Metrics& m : all.runs[k].metrics)
      if (phase == m.phase && std::isfinite(m.*value))
        curve.points.push_back({m.epoch, scale * (m.*value)});
    chart.curves.push_back(std::move(curve));
  }
  return chart_svg(chart);
}

}  // namespace

RunComparison compare_runs(const std::vector<std::string>& dirs) {
  RunComparison all;
  for (std::string dir : dirs) {
    while (dir.size() > 1 && dir.ends_with('/')) dir.pop_back();
    std::error_code error;
    for (const ComparedRun& run : all.runs)
      if (std::filesystem::equivalent(run.dir, dir, error))
        throw ConfigError(
            fmt::format("compare: '{}' and '{}' are the same folder; give it once", run.dir, dir));
    all.runs.push_back(read_run(dir));
  }
  const auto validated = [](const ComparedRun& run) { return has_phase(run, "validation"); };
  if (std::ranges::all_of(all.runs, validated)) all.phase = "validation";
  for (ComparedRun& run : all.runs)
    for (const Metrics& m : run.metrics)
      if (std::string_view(m.phase) == all.phase) {
        run.last = m.accuracy;
        if (!(run.best >= m.accuracy)) run.best = m.accuracy;
      }
  all.different = different_keys(all.runs);
  for (const std::string& key : all.different)
    if (selects_images(key)) all.different_data.push_back(key);
  all.spreads = spreads_of(all);
  return all;
}

std::string RunComparison::text() const {
  const Rows rows = table_of(*this);
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], utf8_length(row[c]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - utf8_length(row[c]), ' ');
      line += (c == 0 ? "" : "  ") + (c == 1 ? row[c] + space : space + row[c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const std::string& line : remarks_on(*this)) text += line + "\n";
  return text;
}

Json RunComparison::json() const {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  std::vector<Json> members, groups;
  for (const ComparedRun& run : runs) {
    std::vector<Json::Member> settings;
    for (const std::string& key : different) settings.emplace_back(key, value_of(run, key));
    members.push_back(Json::object({{"run", run.dir},
                                    {"ended", run.ended},
                                    {"settings", Json::object(settings)},
                                    {"steps", run.steps},
                                    {"epochs", run.epochs},
                                    {"train_loss", number(run.train_loss)},
                                    {"accuracy", number(run.last)},
                                    {"best_accuracy", number(run.best)},
                                    {"images_per_second", number(run.images_per_second)},
                                    {"data_wait", number(run.data_wait)},
                                    {"memory", run.memory}}));
  }
  for (const SeedSpread& spread : spreads) {
    std::vector<Json> names;
    for (const size_t k : spread.runs) names.emplace_back(runs[k].dir);
    groups.push_back(Json::object({{"runs", Json::list(names)},
                                   {"mean", spread.mean},
                                   {"standard_deviation", spread.deviation}}));
  }
  return Json::object(
      {{"images", phase},
       {"different", Json::list({different.begin(), different.end()})},
       {"different_data", Json::list({different_data.begin(), different_data.end()})},
       {"runs", Json::list(members)},
       {"seeds", Json::list(groups)}});
}

std::string RunComparison::html() const {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0} runs</title>\n<style>{1}</style>\n<h1>{0} "
      "runs</h1>\n<div style=\"overflow-x: auto\"><table>\n",
      runs.size(), kReportStyle);
  const Rows rows = table_of(*this);
  for (size_t r = 0; r < rows.size(); ++r) {
    page += "<tr>";
    for (size_t c = 0; c < rows[r].size(); ++c)
      page += fmt::format(
          "<{0}{1}{2}>{3}</{0}>", r == 0 ? "th" : "td", c == 1 ? " class=\"text\"" : "",
          r > 0 && c == 0 ? fmt::format(" style=\"color: {}; font-weight: 600\"", colour_of(r - 1))
                          : "",
          html_escaped(rows[r][c]));
    page += "</tr>\n";
  }
  page += "</table></div>\n";
  for (const std::string& line : remarks_on(*this)) page += "<p>" + html_escaped(line) + "</p>\n";
  const std::string accuracy = fmt::format("{} accuracy in %", phase),
                    loss = fmt::format("{} loss", phase);
  page += "<div class=\"charts\">" +
          chart_of(*this, accuracy.c_str(), phase, &Metrics::accuracy, 100, false) +
          chart_of(*this, loss.c_str(), phase, &Metrics::loss, 1, true) +
          chart_of(*this, "train loss", "train", &Metrics::loss, 1, true) +
          chart_of(*this, "learning rate", "train", &Metrics::lr, 1, false) +
          chart_of(*this, "images/s", "train", &Metrics::images_per_second, 1, false) + "</div>\n";
  return page + "</html>\n";
}

}  // namespace tessera
