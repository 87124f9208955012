// trainer data: inspects, packs, times and fetches the data of a configuration.
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/config/config.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/data/sets/packed.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/study/doctor.h"
#include "tessera/tools/data_fetch.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {

namespace {

struct DataArguments {
  std::string config, out, set, root, from, manifest, compress;
  std::vector<std::string> overrides;
  double seconds = 5;
  bool overwrite = false, json = false;
};

int run_inspect(const DataArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  const Report all = inspect_data(config, [&](const Report& split) {
    if (!arguments.json) print_report(split, false);
  });
  if (arguments.json) print_report(all, true);
  return 0;
}

int run_bench(const DataArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  print_report(time_data(config, arguments.seconds), arguments.json);
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

int run_fetch(const DataArguments& arguments) {
  PublishedSet set = known_set(arguments.set);
  if (!arguments.manifest.empty()) set.downloads = read_manifest(arguments.manifest);
  const std::string root = arguments.root.empty() ? "data/" + set.name : arguments.root;
  fetch(set, root, arguments.from);
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
    return add_command(*data, command, name, help, [arguments, run] { return run(*arguments); });
  };
  auto configured = [&](CLI::App* sub) {
    sub->add_option("--config", arguments->config, "YAML file")->required();
    sub->add_option("overrides", arguments->overrides, "key=value, dotted");
    return sub;
  };
  configured(add("inspect", "classes, counts, sizes, mean and deviation; stray and damaged files",
                 run_inspect))
      ->add_flag("--json", arguments->json, "as JSON");
  CLI::App* pack = configured(
      add("pack", "write all images, at their final size, into one HDF5 file", run_pack));
  pack->add_option("-o,--out", arguments->out, "the file")->required();
  pack->add_flag("--overwrite", arguments->overwrite, "replace the file if it exists");
  pack->add_option("--compress", arguments->compress,
                   "gzip: a smaller file, which is decompressed when it is read")
      ->check(CLI::IsMember({"gzip"}));
  CLI::App* bench = configured(add("bench", "time data loading alone, as in training", run_bench));
  bench->add_flag("--json", arguments->json, "as JSON");
  bench->add_option("--seconds", arguments->seconds, "duration of the measurement")
      ->check(CLI::Range(0.01, 3600.0));
  CLI::App* fetching = add("fetch", "download a published data set and check it", run_fetch);
  fetching->add_option("set", arguments->set, "one of " + known_set_names())->required();
  fetching->add_option("--root", arguments->root, "folder for the files; data/NAME by default");
  fetching->add_option("--from", arguments->from, "URL of a mirror, or a folder with the files");
  fetching->add_option("--manifest", arguments->manifest,
                       "file with lines 'SHA256 BYTES NAME', which replace the published files");
}

}  // namespace tessera
