// trainer: trains, evaluates, plans and measures a configuration.
//
// Exit codes: those of runtime/error.h, and 1 if standard output cannot be written; a training that
// succeeded otherwise only warns of that.
#include <algorithm>
#include <atomic>
#include <csignal>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/planner_library.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/processes.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/exchange/exchange.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/spelling.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace {

using namespace tessera;

std::atomic<int> g_signal{0};
std::atomic<bool> g_save{false};
std::shared_ptr<Exchange> g_processes;  // set in a training that mpirun started
bool g_told_by_leader = false;          // the error of this process

// Handles signals. The first SIGTERM, SIGINT, SIGHUP or SIGPIPE stops the training after its step;
// later ones have no effect. SIGUSR1, by which SLURM announces the end of a job, requests a
// checkpoint. SIGHUP and SIGPIPE stay ignored if the parent process ignored them, as nohup does.
void catch_signals() {
  static_assert(std::atomic<int>::is_always_lock_free);
  struct sigaction action {};
  action.sa_handler = [](int number) {
    int none = 0;
    g_signal.compare_exchange_strong(none, number);
  };
  action.sa_flags = SA_RESTART;
  for (int number : {SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
  for (int number : {SIGHUP, SIGPIPE}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  struct sigaction before {};
  sigaction(SIGUSR1, nullptr, &before);
  action.sa_handler = [](int) { g_save = true; };
  if (before.sa_handler != SIG_IGN) sigaction(SIGUSR1, &action, nullptr);
}

// Reports unknown words, for which CLI11 would only list what is missing.
void require_known_words(const CLI::App& app, const CLI::App& train,
                         const std::vector<std::string>& words) {
  if (words.empty()) return;
  if (words[0].starts_with('-')) {
    const std::string name = words[0].substr(0, words[0].find('='));
    if (app.get_option_no_throw(name) != nullptr) return;
    std::vector<std::string> known;
    for (const CLI::Option* option : train.get_options())
      if (!option->get_lnames().empty()) known.push_back("--" + option->get_lnames()[0]);
    throw ConfigError("trainer: the option " + unknown_name(name, known));
  }
  if (words[0].ends_with(".yaml") || words[0].ends_with(".yml"))
    throw ConfigError(
        fmt::format("trainer: '{0}' must follow --config; run trainer --config {0}", words[0]));
  require_command(app, words[0]);
  const CLI::App& command = *app.get_subcommand(words[0]);
  const bool has_commands = !command.get_subcommands([](const CLI::App*) { return true; }).empty();
  if (has_commands && words.size() > 1 && !words[1].starts_with('-'))
    require_command(command, words[1]);
}

// Prints a hint, because a file without --config is read as an override.
void hint_at_config(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i)
    if ((words[i].ends_with(".yaml") || words[i].ends_with(".yml")) &&
        words[i].find('=') == std::string::npos)
      fmt::print(stderr, "did you mean '--config {}'?\n", words[i]);
}

// Returns the index of the first word after the options that all commands share.
size_t first_of_command(const std::vector<std::string>& words) {
  size_t first = 0;
  for (; first < words.size(); ++first) {
    const std::string& word = words[first];
    if (word == "--planner-lib" || word == "--log-level") {
      ++first;  // its value
    } else if (word != "--quiet" && !word.starts_with("--planner-lib=") &&
               !word.starts_with("--log-level=")) {
      break;
    }
  }
  return std::min(first, words.size());
}

// Returns true if the first word after the common options is an option of train, the default
// command.
bool train_is_meant(const CLI::App& app, const CLI::App& train,
                    const std::vector<std::string>& words) {
  const size_t first = first_of_command(words);
  if (first >= words.size()) return false;
  const std::string name = words[first].substr(0, words[first].find('='));
  return name.starts_with("--") && app.get_option_no_throw(name) == nullptr &&
         train.get_option_no_throw(name) != nullptr;
}

constexpr const char* kFooter =
    "Without a command, trainer trains: trainer --config FILE [KEY=VALUE ...]\n"
    "  --config FILE   YAML configuration (trainer config init writes one)\n"
    "  KEY=VALUE       overrides any key of the file: train.epochs=5, data.root=/data\n\n"
    "Examples:\n"
    "  trainer --config models/configs/quickstart.yaml train.epochs=3\n"
    "  trainer --config models/configs/quickstart.yaml --resume\n"
    "  trainer plan --config models/configs/resnet.yaml --limit 2GiB --max-batch\n\n"
    "trainer COMMAND --help lists its options, trainer config reference every key.";

int dispatch(int argc, char** argv) {
  CLI::App app{"Trains CNN image classifiers in a memory plan known before the first batch.",
               "trainer"};
  bool quiet = false;
  Command command;
  app.require_subcommand(1);
  app.set_version_flag("--version", "trainer of Tessera " TESSERA_VERSION);
  app.fallthrough();
  app.add_flag("--quiet", quiet,
               "print only the result of train and eval; warnings and errors are still shown");
  app.add_option("--log-level", "debug, info, warning (the default), error or off")
      ->type_name("LEVEL")
      ->each([](const std::string& level) { set_log_level(parse_log_level(level)); });
  add_library(app, "--planner-lib",
              "a shared library with a planner; select it with memory.planner", load_planner);
  CLI::App* train = add_train_command(app, command, quiet, shell_command(argc, argv));
  add_eval_command(app, command, quiet);
  add_plan_command(app, command);
  add_config_commands(app, command);
  add_data_commands(app, command);
  add_bench_command(app, command);
  add_profile_command(app, command);
  add_tune_command(app, command);
  add_export_command(app, command);
  add_predict_command(app, command);
  add_compare_command(app, command);
  add_sweep_command(app, command, quiet);
  add_machine_commands(app, command);

  app.footer(kFooter);  // after the commands, which would inherit it

  std::vector<std::string> words(argv + 1, argv + argc);
  if (train_is_meant(app, *train, words)) words.insert(words.begin(), "train");
  require_known_words(app, *train, words);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) require_known_options(app, words);
    if (print_exit(app, error) == 0) return 0;
    if (error.get_name() == "RequiredError" && train->count("--config") == 0) hint_at_config(words);
    return 2;
  }
  return command();
}

// Ends the other processes of a training that failed, after its error has been printed.
int with_others(int code) {
  if (g_processes && code != 0 && code < 128 && !g_told_by_leader) g_processes->abort(code);
  g_processes.reset();
  return code;
}

int run_program(int argc, char** argv) {
  try {
    return end_program("trainer", dispatch(argc, argv));
  } catch (const tessera::ConfigErrors& errors) {  // each error begins with its location
    fmt::print(stderr, "{}\n", errors.what());
    return errors.exit_code();
  } catch (const CommonError& error) {
    g_told_by_leader = g_processes && g_processes->rank() > 0;
    if (!g_told_by_leader) print_error(fmt::format("trainer: {}", error.what()));
    return error.exit_code();
  } catch (const tessera::Error& error) {
    print_error(fmt::format("trainer: {}", error.what()));
    return error.exit_code();
  } catch (const std::exception& error) {
    return end_program("trainer", error);
  }
}

}  // namespace

std::shared_ptr<Exchange> tessera::join_others(const Config& config) {
  g_processes = join_processes(config.distributed.timeout);
  if (g_processes && g_processes->rank() > 0) set_log_level(LogLevel::error);  // the leader warns
  return g_processes;
}

Run tessera::shared_run(const Config& config) {
  Run run = Run::shared(config, join_others(config));
  require_shareable(run.as(Purpose::timing, DataNeed()));
  return run;
}

TrainOptions tessera::stoppable(TrainOptions options) {
  catch_signals();
  options.stop = &g_signal;
  options.save = &g_save;
  return options;
}

int main(int argc, char** argv) {
  begin_program();
  return with_others(run_program(argc, argv));
}
