// trainer profile: the time of a training step, op by op; trainer tune: finds the fastest
// convolutions of a configuration on a GPU.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/config/config.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/run.h"
#include "tessera/runtime/cuda/plan_cache.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {

namespace {

struct ProfileArguments {
  std::string config, trace;
  std::vector<std::string> overrides, diff;
  ProfileOptions options;
  size_t ops = 30;
  bool json = false, machine = false, algorithms = false;
};

int profile_this_machine(const ProfileArguments& arguments) {
  const Config config = parse_config("", "profile", arguments.overrides);
  write_out(profile_machine(config, arguments.options, sample_networks(),
                            [](const SampleNetwork& network) {
                              print_error(fmt::format("{} at {}x{}, {} images", network.model,
                                                      network.image_size, network.image_size,
                                                      network.batch));
                            }) +
            "\n");
  return 0;
}

int run_profile(const ProfileArguments& arguments) {
  if (!arguments.diff.empty()) {
    const std::string &a = arguments.diff[0], &b = arguments.diff[1];
    write_out(diff_profiles(read_file(a), a, read_file(b), b, arguments.ops));
    return 0;
  }
  if (arguments.machine) return profile_this_machine(arguments);
  if (arguments.config.empty())
    throw ConfigError(
        "profile: --config F, --model NAME, --machine or --diff A.json B.json is needed");
  const Config config = load_config(arguments.config, arguments.overrides);
  if (arguments.algorithms) {
    const Run run(config);
    print_report(algorithm_times(run, arguments.options.steps).report(), arguments.json);
    return 0;
  }
  const Run run = shared_run(config);
  const Profile result = profile(run, arguments.options);
  if (!run.leads()) return 0;
  if (!arguments.trace.empty()) write_file(arguments.trace, result.trace());
  if (!arguments.json) print_line(device_line(run));
  print_report(result.report(arguments.ops), arguments.json);
  return 0;
}

int tune(const ProfileArguments& arguments) {
  if (arguments.config.empty()) throw ConfigError("tune: --config F or --model NAME is needed");
  if (plan_cache().folder().empty())
    throw ConfigError("tune: no folder can keep the results; set TESSERA_CACHE to one");
  const Tuning tuning = tune_plans(load_config(arguments.config, arguments.overrides),
                                   [](const std::string& line) { write_out(line + '\n'); });
  write_out(fmt::format(
      "measured {} convolutions, {} plans; the convolutions of a training step take {:.3f} ms with "
      "cuDNN's own choice, {:.3f} ms with gpu.plans=autotuned; kept in {}\n",
      tuning.convolutions, tuning.plans, tuning.heuristic_microseconds / 1000,
      tuning.autotuned_microseconds / 1000, plan_cache().folder()));
  return 0;
}

}  // namespace

void add_profile_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<ProfileArguments>();
  CLI::App* profile = add_command(app, command, "profile", "time a training step op by op",
                                  [arguments] { return run_profile(*arguments); });
  add_config_options(*profile, arguments->config, arguments->overrides);
  profile->add_option("--steps", arguments->options.steps, "steps to time op by op")
      ->check(CLI::Range(1, 1000));
  profile
      ->add_option("--warmup", arguments->options.warmup,
                   "untimed steps before; more if they take less than 0.2 s in total")
      ->check(CLI::Range(0, 1000));
  profile->add_option("--ops", arguments->ops, "number of ops to show, slowest first; 0: all");
  profile->add_flag("--json", arguments->json, "the whole profile as JSON");
  profile->add_option("--trace", arguments->trace,
                      "write every op of every step for chrome://tracing and Perfetto");
  add_disable_pass(*profile, arguments->options.compile);
  profile->add_option("--diff", arguments->diff, "show what changed between two --json files")
      ->expected(2);
  profile->add_flag("--algorithms", arguments->algorithms,
                    "time and scratch memory of each algorithm, for ops with several algorithms");
  profile->add_flag("--machine", arguments->machine,
                    "time ops of many networks on this computer, as JSON for memory.cost_model");
  exclude(*profile, "--machine", {"--config", "--model", "--trace", "--json", "--algorithms"});
  exclude(*profile, "--algorithms", {"--trace", "--warmup", "--disable-pass"});
  exclude(*profile, "--diff",
          {"--config", "--model", "--machine", "--algorithms", "overrides", "--steps", "--warmup",
           "--json", "--trace", "--disable-pass"});
}

void add_tune_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<ProfileArguments>();
  CLI::App* sub =
      add_command(app, command, "tune",
                  "find the fastest plan of each convolution on the GPU, for gpu.plans=autotuned",
                  [arguments] { return tune(*arguments); });
  add_config_options(*sub, arguments->config, arguments->overrides);
}

}  // namespace tessera
