// trainer data: inspects, packs, times and fetches the data of a configuration.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/moments.h"
#include "tessera/models/data/sets/packed.h"
#include "tessera/models/run/environment.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/status_line.h"
#include "tessera/runtime/text/terminal.h"
#include "tessera/tools/data_fetch.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {

namespace {

struct DataArguments {
  std::string config, out, set, root, from, manifest, compress;
  std::vector<std::string> overrides;
  double seconds = 5;
  bool overwrite = false;
};

// Formats with four decimals, as usually published.
std::string four_decimals(const Normalization& normalization) {
  return fmt::format("mean [{:.4f}], std [{:.4f}]", fmt::join(normalization.mean, ", "),
                     fmt::join(normalization.std, ", "));
}

void inspect_split(const std::shared_ptr<const Dataset>& data, const Config& config) {
  print_line(data->describe());
  if (data->has_own_sizes()) {
    ImageShape least = data->own_shape(0), most = least;
    for (int64_t i = 0; i < data->count(); ++i) {
      ImageShape own = data->own_shape(i);
      least = {std::min(least.height, own.height), std::min(least.width, own.width), own.channels};
      most = {std::max(most.height, own.height), std::max(most.width, own.width), own.channels};
    }
    print_line(fmt::format("  sizes: {} to {} high, {} to {} wide", least.height, most.height,
                           least.width, most.width));
  }
  std::vector<int64_t> counts(static_cast<size_t>(data->classes()));
  Moments moments(data->channels());
  Loader loader(data, loader_options(config, false));
  for (int64_t i = 0; i < loader.batches(); ++i) {
    const Batch& batch = loader.next();
    moments.add(batch.images, batch.count * data->shape().bytes());
    for (int64_t k = 0; k < batch.count; ++k) ++counts[static_cast<size_t>(batch.labels[k])];
  }
  print_line("  " + four_decimals(moments.normalization()));
  for (size_t i = 0; i < counts.size(); ++i)
    print_line(fmt::format(
        "  {:>8}  {}", counts[i],
        data->class_names().empty() ? fmt::format("class {}", i) : data->class_names()[i]));
  for (const std::string& note : data->notes()) print_line("  " + note);
}

int run_inspect(const DataArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  DataSource source = data_source(config);
  source.decode_all = true;
  const DataSplit data = open_data(source);
  inspect_split(data.train, config);
  if (data.validation != nullptr) inspect_split(data.validation, config);
  inspect_split(data.test, config);
  return 0;
}

// Returns the extra arguments with which a command trains on the packed file instead of the folder.
std::string words_for_packed(Config config, const std::string& path) {
  config.data.name = "hdf5";
  const std::string root = "data.root=" + path;
  const char* const word = root.c_str();
  std::string words = "data.name=hdf5 " + shell_command(1, &word);
  if (!std::exchange(config.data.images, "").empty()) words += " ~data.images";
  if (!config.data.validation.folder.empty()) words += " ~data.validation";
  for (const ConfigKey& key : config_keys(config))
    if (!why_without_effect(config, key).empty()) words += " ~" + key.path;
  return words;
}

int run_pack(const DataArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  check_pack_target(arguments.out, arguments.overwrite);  // first, because decoding may take hours
  DataSource source = data_source(config);
  source.validation = {};  // held out of the pack later, by the same seed
  DataSplit data = open_data(source);
  int64_t shown = 0;
  const auto progress = [&](int64_t done, int64_t all) {
    if (done * 10 / all == shown) return;
    shown = done * 10 / all;
    print_line(fmt::format("{} of {} images", done, all));
  };
  write_packed(data, arguments.out, config.data.workers, progress,
               arguments.compress == "gzip" ? Compress::kGzip : Compress::kNone);
  for (const auto& split : {data.train, data.test})
    for (const std::string& note : split->notes()) print_line(note);
  print_line(
      fmt::format("{}: train with {}", arguments.out, words_for_packed(config, arguments.out)));
  return 0;
}

// Runs only the training pipeline, at full speed.
int run_bench(const DataArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  int64_t before = host_memory().process;
  DataSplit data = open_data(data_source(config));
  data.test.reset();  // not used here
  release_unused_heap();
  const LoaderOptions options = loader_options(config, true);
  Loader loader(data.train, options);
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  int64_t images = 0, most = 0;
  double seconds = 0;
  constexpr int64_t kMin = 16, kLook = 8;  // in batches: fill every slot, check the memory
  for (int64_t i = 0; i < kMin || seconds < arguments.seconds; ++i) {
    images += loader.next().count;
    if (i % kLook == kLook - 1) most = std::max(most, host_memory().process);
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  const int64_t said = loader.bytes() + total_bytes(data.train->host_buffers());
  LoaderTimes times = loader.times();
  print_line(fmt::format(
      "{:.1f} images/s with {} workers; time of the workers: reading {:.1f} s, decoding "
      "{:.1f} s, augmentation {:.1f} s, mixing {:.1f} s of {:.1f} s",
      static_cast<double>(images) / seconds, options.workers, times.read, times.decode,
      times.augment, times.mix, seconds * std::max(1, options.workers)));
  print_line(fmt::format("memory: calculated {:.2f} MiB, the process grew by {:.2f} MiB",
                         static_cast<double>(said) / (1 << 20),
                         static_cast<double>(most - before) / (1 << 20)));
  return 0;
}

// Shows the progress of a download on a terminal line, a few times a second.
class FetchLine {
 public:
  ~FetchLine() { clear(); }
  void clear() const {
    if (active_) set_status(stdout, "");
  }
  void show(const PublishedFile& file, int64_t bytes) {
    constexpr std::chrono::milliseconds kPause{250};
    const auto now = std::chrono::steady_clock::now();
    if (!active_ || now < next_) return;
    next_ = now + kPause;
    set_status(stdout, fmt::format("{}: {} % of {:.1f} MiB", file.name, bytes * 100 / file.bytes,
                                   static_cast<double>(file.bytes) / (1 << 20)));
  }

 private:
  const bool active_ = can_redraw(stdout);
  std::chrono::steady_clock::time_point next_{};
};

int run_fetch(const DataArguments& arguments) {
  PublishedSet set = known_set(arguments.set);
  if (!arguments.manifest.empty()) set.downloads = read_manifest(arguments.manifest);
  std::string root = arguments.root.empty() ? "data/" + set.name : arguments.root;
  FetchLine line;
  fetch(
      set, root, arguments.from,
      [&](const std::string& text) {
        line.clear();
        print_line(text);
      },
      [&](const PublishedFile& file, int64_t bytes) { line.show(file, bytes); });
  print_line(fmt::format("{} is ready: data.name={} data.root={}", set.name, set.name, root));
  return 0;
}

}  // namespace

void add_data_commands(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<DataArguments>();
  CLI::App* data = app.add_subcommand("data", "inspect, pack, time or fetch the data");
  data->require_subcommand(1);
  data->fallthrough(false);
  auto add = [&](const char* name, const char* help, int (*run)(const DataArguments&)) {
    CLI::App* sub = data->add_subcommand(name, help);
    sub->callback(
        [&command, arguments, run] { command = [arguments, run] { return run(*arguments); }; });
    return sub;
  };
  auto configured = [&](CLI::App* sub) {
    sub->add_option("--config", arguments->config, "YAML file")->required();
    sub->add_option("overrides", arguments->overrides, "key=value, dotted");
    return sub;
  };
  configured(add("inspect", "classes, counts, sizes, mean and deviation; stray and damaged files",
                 run_inspect));
  CLI::App* pack = configured(
      add("pack", "write all images, at their final size, into one HDF5 file", run_pack));
  pack->add_option("-o,--out", arguments->out, "the file")->required();
  pack->add_flag("--overwrite", arguments->overwrite, "replace the file if it exists");
  pack->add_option("--compress", arguments->compress,
                   "gzip: a smaller file, which is decompressed when it is read")
      ->check(CLI::IsMember({"gzip"}));
  configured(add("bench", "time data loading alone, as in training", run_bench))
      ->add_option("--seconds", arguments->seconds, "duration of the measurement")
      ->check(CLI::Range(0.01, 3600.0));
  CLI::App* fetching = add("fetch", "download a published data set and check it", run_fetch);
  fetching->add_option("set", arguments->set, "one of " + known_set_names())->required();
  fetching->add_option("--root", arguments->root, "folder for the files; data/NAME by default");
  fetching->add_option("--from", arguments->from, "URL of a mirror, or a folder with the files");
  fetching->add_option("--manifest", arguments->manifest,
                       "file with lines 'SHA256 BYTES NAME', which replace the published files");
}

}  // namespace tessera
