#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/run/record_file.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/study/compare_runs.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"
#include "tessera/runtime/random.h"

namespace tessera {

namespace {

constexpr const char kSweep[] = "sweep.txt", kDone[] = "done.txt";
constexpr size_t kMaxRuns = 10000;

// Returns the values of "a,[b,c],d": those between commas outside of brackets and quotes.
std::vector<std::string> values_in(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0)
      quote = c == quote ? 0 : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (c == ',' && depth == 0 && quote == 0)
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

// Returns a name for a folder: '/' would begin another one.
std::string folder_name(const std::vector<std::string>& settings) {
  std::string name = fmt::format("{}", fmt::join(settings, ","));
  std::ranges::replace(name, '/', '_');
  return name;
}

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

struct SweptRuns {
  std::string dir, text;  // run.dir, sweep.txt
  std::vector<std::string> names;
  std::vector<Config> configs;
};

SweptRuns swept_runs(const std::string& config, const std::vector<std::string>& words) {
  SweptRuns runs;
  std::vector<std::string> fixed, swept;
  std::vector<std::vector<std::string>> combinations(1);
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::vector<std::string> values =
        values_in(equals == word.npos ? "" : word.substr(equals + 1));
    if (values.size() < 2) {
      fixed.push_back(word);
      continue;
    }
    if (word.starts_with("run.dir="))
      throw ConfigError("sweep: run.dir is the folder of all runs; give it one value");
    swept.push_back(word);
    if (combinations.size() * values.size() > kMaxRuns)
      throw ConfigError(fmt::format("sweep: has more than {} runs", kMaxRuns));
    std::vector<std::vector<std::string>> more;
    for (const std::vector<std::string>& combination : combinations)
      for (const std::string& value : values)
        more.emplace_back(combination).push_back(word.substr(0, equals + 1) + value);
    combinations = std::move(more);
  }
  if (swept.empty())
    throw ConfigError(
        "sweep: no key has several values; write them with commas, such as "
        "optimizer.lr=0.01,0.1");
  for (const std::vector<std::string>& combination : combinations) {
    runs.names.push_back(folder_name(combination));
    std::vector<std::string> settings = fixed;
    settings.insert(settings.end(), combination.begin(), combination.end());
    runs.configs.push_back(load_config(config, settings));
  }
  const Config base = runs.configs.front();
  runs.dir = base.run.dir;
  std::string all;
  for (size_t k = 0; k < runs.configs.size(); ++k) {
    runs.configs[k].run.dir = runs.dir + "/" + runs.names[k];
    all += print_config(runs.configs[k]);
  }
  runs.text = fmt::format("{}\n\n{}\n# digest of the configurations: {:016x}\n",
                          fmt::join(swept, "\n"), print_config(base), random_key(0, all));
  if (std::set<std::string>(runs.names.begin(), runs.names.end()).size() < runs.names.size())
    throw ConfigError("sweep: two runs are the same; give each value once");
  return runs;
}

}  // namespace

SweepOutcome sweep(const std::string& config, const std::vector<std::string>& words,
                   const Print& print, const TrainOptions& options) {
  const auto [dir, text, names, configs] = swept_runs(config, words);
  require_run_folder(dir);
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) refuse_run_file(dir, "create", error.value());
  if (const std::string before = run_file(dir, kSweep); before.empty()) {
    const std::string path = dir + "/" + kSweep;
    const auto bytes = std::as_bytes(std::span(text));
    if (const FileError fault = write_durably(file_system(), path.c_str(), std::span(&bytes, 1)))
      refuse_run_file(path, fault.operation, fault.error);
  } else if (before != text) {
    throw ConfigError(fmt::format(
        "sweep: '{}' contains another sweep ({} says which); set another run.dir, or give the same "
        "settings to continue it",
        dir, dir + "/" + kSweep));
  }
  std::string earlier = run_file(dir, kDone);
  earlier.resize(earlier.rfind('\n') + 1);  // the last line may be incomplete
  const std::set<std::string> ended = lines_of(earlier);
  RecordFile done(file_system(), dir + "/" + kDone, "", std::ssize(earlier));
  SweepOutcome outcome;
  for (size_t k = 0; k < configs.size(); ++k) {
    const Config& run = configs[k];
    const std::string place = fmt::format("run {} of {}: {}", k + 1, configs.size(), names[k]);
    const bool has_weights = std::filesystem::exists(weights_path(run.run.dir), error);
    // Without checkpoints a run that has weights cannot go on.
    const bool is_done = has_weights && (ended.contains(names[k]) || run.checkpoint.keep == 0);
    if (!is_done) try {
        TrainOptions own = options;
        own.resume = "auto";
        print(place);
        const TrainResult result = train(
            run, [](const std::string&) {}, own);
        outcome.stopped_by = result.stopped_by;
        if (result.stopped_by != 0) return outcome;
        done.append(names[k] + "\n");
        print(fmt::format("  test accuracy {:.2f} %, {:.1f} s", 100 * result.test_accuracy,
                          result.seconds));
      } catch (const Error& fault) {
        outcome.failed.push_back(place + ": " + fault.what());
        if (outcome.exit_code == 0) outcome.exit_code = fault.exit_code();
        print("  " + std::string(fault.what()));
        continue;
      }
    outcome.done.push_back(run.run.dir);
  }
  return outcome;
}

}  // namespace tessera
