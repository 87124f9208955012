// trainer tune: measures how a GPU computes the convolutions of a configuration best.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/config/config.h"
#include "tessera/models/study/algorithm_times.h"
#include "tessera/models/training/run.h"
#include "tessera/runtime/cuda/plan_cache.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_verbs.h"

namespace tessera {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
};

int run(const Arguments& arguments) {
  if (plan_cache().folder().empty())
    throw ConfigError("tune: TESSERA_CACHE is off, so what is measured could not be kept");
  const Tuning tuning = tune_plans(load_config(arguments.config, arguments.overrides),
                                   [](const std::string& line) { write_out(line + '\n'); });
  write_out(
      fmt::format("{} convolutions, {} plans measured; those of a training step take {:.3f} ms as "
                  "cuDNN proposes, {:.3f} ms with gpu.plans=tuned; kept in {}\n",
                  tuning.convolutions, tuning.plans, tuning.rule_microseconds / 1000,
                  tuning.tuned_microseconds / 1000, plan_cache().folder()));
  return 0;
}

}  // namespace

void add_tune_verb(CLI::App& app, Verb& verb) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* tune = app.add_subcommand(
      "tune", "measure how the GPU computes the convolutions best, for gpu.plans=tuned");
  tune->add_option("--config", arguments->config, "YAML file")->required();
  tune->add_option("overrides", arguments->overrides, "key=value, dotted: data.batch=64");
  tune->callback([arguments, &verb] { verb = [arguments] { return run(*arguments); }; });
}

}  // namespace tessera
