#include "tessera/models/study/compare_runs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config.h"
#include "tessera/models/run/run_report.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

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

bool is_validated(const ComparedRun& run) {
  const auto validates = [](const Metrics& m) { return std::string_view(m.phase) == "validation"; };
  return std::ranges::any_of(run.metrics, validates);
}

std::string value_of(const ComparedRun& run, const std::string& key) {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? "" : found->second;
}

std::vector<std::string> different_keys(const std::vector<ComparedRun>& runs) {
  std::set<std::string> keys;
  for (const ComparedRun& run : runs)
    for (const auto* settings : {&run.settings, &runs[0].settings})  // either may lack a key
      for (const auto& [key, value] : *settings)
        if (key != "run.dir" && value_of(run, key) != value_of(runs[0], key)) keys.insert(key);
  return {keys.begin(), keys.end()};
}

bool selects_images(const std::string& key) {
  for (const char* known :
       {"name", "root", "labels", "images", "image_size", "resize", "train_count", "test_count",
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

// Ten colours that differ on white and on black.
const char* colour_of(size_t run) {
  constexpr const char* kColours[] = {"#2563c9", "#d9730d", "#1d8a5a", "#c2374f", "#7c5cd6",
                                      "#0e8a9c", "#b0539c", "#8a7414", "#6b7785", "#5b8f2a"};
  return kColours[run % std::size(kColours)];
}

Table table_of(const RunComparison& all) {
  std::vector<Table::Column> columns = {
      {nullptr, ""}, {"run", "run", true}, {"ended", nullptr}, {"settings", nullptr}};
  for (const std::string& key : all.different) columns.push_back({nullptr, key.c_str()});
  columns.insert(columns.end(), {{"steps", nullptr},
                                 {"epochs", "epochs"},
                                 {"train_loss", "train loss"},
                                 {"accuracy", all.phase},
                                 {"best_accuracy", "best"},
                                 {"images_per_second", "images/s"},
                                 {"data_wait", "wait"},
                                 {"memory", "memory"}});
  Table table(columns);
  for (size_t k = 0; k < all.runs.size(); ++k) {
    const ComparedRun& run = all.runs[k];
    std::vector<Json::Member> settings;
    for (const std::string& key : all.different) settings.emplace_back(key, value_of(run, key));
    std::vector<Cell> row = {k + 1,
                             {run.dir + (run.ended ? "" : " (not ended)"), run.dir},
                             {"", run.ended},
                             {"", Json::object(settings)}};
    row[0].colour = colour_of(k);
    for (const std::string& key : all.different) row.emplace_back(value_of(run, key));
    row.insert(row.end(), {run.steps,
                           {fmt::format("{:.4g}", run.epochs), run.epochs},
                           number(run.train_loss, 4),
                           percent(run.last, 2),
                           percent(run.best, 2),
                           number(run.images_per_second, 0),
                           percent(run.data_wait, 0),
                           byte_count(run.memory, 2)});
    table.add(std::move(row));
  }
  return table;
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
  if (std::ranges::all_of(all.runs, is_validated)) all.phase = "validation";
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

Report RunComparison::report() const {
  const auto group = [&](const SeedSpread& spread) {
    return Json::object(
        {{"runs", Json::list_of(spread.runs, [&](size_t k) { return runs[k].dir; })},
         {"mean", spread.mean},
         {"standard_deviation", spread.deviation}});
  };
  Report report;
  report.add("images", phase)
      .add("different", Json::list_of(different))
      .add("different_data", Json::list_of(different_data))
      .add("runs", "", table_of(*this))
      .add("seeds", Json::list_of(spreads, group));
  for (const std::string& line : remarks_on(*this)) report.line(line);
  return report;
}

std::string RunComparison::html() const {
  const std::string accuracy = fmt::format("{} accuracy in %", phase),
                    loss = fmt::format("{} loss", phase);
  return page_head(fmt::format("{} runs", runs.size())) + report().html() +
         "<div class=\"charts\">" +
         chart_of(*this, accuracy.c_str(), phase, &Metrics::accuracy, 100, false) +
         chart_of(*this, loss.c_str(), phase, &Metrics::loss, 1, true) +
         chart_of(*this, "train loss", "train", &Metrics::loss, 1, true) +
         chart_of(*this, "learning rate", "train", &Metrics::lr, 1, false) +
         chart_of(*this, "images/s", "train", &Metrics::images_per_second, 1, false) + "</div>\n" +
         kPageEnd;
}

}  // namespace tessera
