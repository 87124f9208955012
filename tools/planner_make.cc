// planner random, export: make problems at random or from a model.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "tessera/memory/plan_csv.h"
#include "tessera/memory/recompute/recompute_text.h"
#include "tessera/memory/sample_problems.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/planner_commands.h"

namespace tessera {
namespace {

struct MakeArguments {
  std::string config, output;
  std::vector<std::string> overrides;
  RandomProblem random;
  int training_batch = 0;
};

int make_random(const MakeArguments& arguments) {
  if (arguments.training_batch > 0) {
    TrainingNetwork network;
    network.batch = arguments.training_batch;
    write_output(arguments.output, write_recompute(training_recompute(network)));
    return 0;
  }
  if (arguments.random.largest < 1 || arguments.random.largest > int64_t{1} << 36)
    throw ConfigError("random: --max-size must be from 1 to 64GiB");
  const Problem problem = random_problem(arguments.random);
  if (const auto fault = malformed(problem)) throw ConfigError(*fault);
  write_output(arguments.output, write_plan_csv(problem));
  return 0;
}

// Replaces this process by the trainer next to it, which exports the problem of a model, so that
// planner need not contain the whole engine.
int export_model(const MakeArguments& arguments) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string trainer = self.parent_path() / "trainer";
  const std::string output = arguments.output.empty() ? "-" : arguments.output;
  std::vector<std::string> command = {trainer, "plan", "--config", arguments.config,
                                      "--csv", output, "--"};
  command.insert(command.end(), arguments.overrides.begin(), arguments.overrides.end());
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execv(trainer.c_str(), words.data());
  throw DataError(fmt::format("export: cannot run {}: {}; put it into the folder of planner",
                              trainer, std::strerror(errno)));
}

void add_random(CLI::App& command, RandomProblem& random) {
  const auto number = [&](const char* name, auto& target, int64_t most, const char* help) {
    command.add_option(name, target, help)
        ->check(CLI::Range(int64_t{1}, most))
        ->capture_default_str();
  };
  const auto share = [&](const char* name, double& target, const char* help) {
    command.add_option(name, target, help)->check(CLI::Range(0.0, 1.0))->capture_default_str();
  };
  number("--buffers", random.buffers, 10'000'000, "number of buffers");
  command.add_option("--seed", random.seed, "the same seed gives the same problem")
      ->capture_default_str();
  number("--times", random.times, 1'000'000'000, "lifetimes begin before this time");
  add_bytes(command, "--max-size", random.largest, "the largest size, up to 64GiB (64KiB)");
  number("--max-alignment", random.largest_alignment, int64_t{1} << 30, "the largest power of 2");
  share("--long-lived", random.long_lived, "fraction of the buffers that may live throughout");
  share("--aligned", random.aligned, "fraction with an alignment");
  share("--gaps", random.gaps, "fraction with gaps");
  share("--fixed", random.fixed, "fraction with a fixed offset");
  share("--hints", random.hints, "fraction with a hint");
  share("--empty", random.empty, "fraction without bytes, and fraction without a lifetime");
}

}  // namespace

void add_make_commands(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<MakeArguments>();
  const auto add = [&](const char* name, const char* help, int (*run)(const MakeArguments&)) {
    CLI::App* sub =
        add_command(app, command, name, help, [arguments, run] { return run(*arguments); });
    sub->add_option("-o,--output", arguments->output, "a file instead of standard output");
    return sub;
  };
  CLI::App* random = add("random", "make a random problem, as CSV", make_random);
  add_random(*random, arguments->random);
  random
      ->add_option("--training", arguments->training_batch,
                   "for planner recompute instead: a ResNet-50 step at this batch size")
      ->check(CLI::Range(1, 100'000));
  CLI::App* exporting =
      add("export", "write the problem of a model's training step, as CSV", export_model);
  exporting->add_option("--config", arguments->config, "YAML file, as for trainer")->required();
  exporting->add_option("overrides", arguments->overrides, "key=value, dotted: data.batch=64");
}

}  // namespace tessera
