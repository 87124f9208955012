// trainer config: prints the keys of a configuration as a schema, a page or a file to start from.
#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/graph/lower.h"
#include "tessera/models/config/config.h"
#include "tessera/models/study/doctor.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {

namespace {

void write_new(const std::string& path, const std::string& text) {
  if (std::filesystem::exists(path))
    throw ConfigError(fmt::format("config init: {} already exists; write another file name", path));
  write_file(path, text);
}

}  // namespace

void add_config_options(CLI::App& command, std::string& config,
                        std::vector<std::string>& overrides) {
  auto* file = command.add_option("--config", config, "YAML file");
  command.add_option("overrides", overrides, "key=value, dotted: data.batch=64");
  const auto take = [&](const std::string& name) {
    config = "/dev/null";  // an empty file
    std::vector<std::string> first = {"model.name=" + name};
    if (const int size = published_input(name).image_size; size > 0) {
      first.emplace_back("model.classes=1000");
      first.push_back(fmt::format("data.image_size={}", size));
    }
    overrides.insert(overrides.begin(), first.begin(), first.end());
  };
  command
      .add_option_function<std::string>("--model", take, "a network of the zoo instead of a file")
      ->type_name("NAME")
      ->excludes(file);
}

void add_gpu_flags(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_flag_callback(
      "--no-cuda-graph", [&overrides] { overrides.push_back("gpu.cuda_graph=false"); },
      "on a GPU: launch each kernel separately, not the step as one CUDA graph");
  command.add_flag_callback(
      "--sync", [&overrides] { overrides.push_back("gpu.synchronous=true"); },
      "on a GPU: wait after each op, so that the error of a kernel names its op");
}

void add_disable_pass(CLI::App& command, CompileOptions& compile) {
  command
      .add_option("--disable-pass", compile.disabled_passes,
                  fmt::format("disable a pass; may be repeated: {}", fmt::join(pass_names(), ", ")))
      ->allow_extra_args(false);
}

void add_config_commands(CLI::App& app, Command& command) {
  CLI::App* config = app.add_subcommand("config", "show all configuration keys, or write a file");
  config->require_subcommand(1);
  const auto print = [](const std::string& text) {
    write_out(text);
    return 0;
  };
  add_command(*config, command, "schema", "JSON Schema, for editors",
              [=] { return print(config_schema()); });
  add_command(*config, command, "reference", "every key, as a page in Markdown",
              [=] { return print(config_reference()); });
  const auto model = std::make_shared<std::string>(Config().model.name);
  const auto out = std::make_shared<std::string>();
  CLI::App* init =
      add_command(*config, command, "init", "a commented configuration with every key", [=] {
        const std::string text = config_template(*model);
        if (out->empty()) return print(text);
        write_new(*out, text);
        return 0;
      });
  init->add_option("--model", *model, "name of the model");
  init->add_option("-o,--output", *out, "a new file, instead of standard output");
}

bool look_at_config(const ConfigLook& look, const std::string& path,
                    const std::vector<std::string>& overrides, const TrainOptions& options) {
  if (!look.print && !look.dry_run) return false;
  const Config config = load_config(path, overrides);
  if (look.print) write_out(print_config(config, /*with_origins=*/true));
  if (look.dry_run) dry_run(config, print_line, options);
  return true;
}

void add_config_look(CLI::App& train, ConfigLook& look) {
  train.add_flag("--print-config", look.print,
                 "print every value and its origin, and do nothing else");
  train.add_flag("--dry-run", look.dry_run,
                 "check everything up to the first step, and write nothing");
}

}  // namespace tessera
