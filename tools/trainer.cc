// trainer: trains, evaluates, plans and measures what a configuration describes.
//
// Exit codes: those of runtime/error.h, and 1 where standard output cannot be written; a training
// that did all else only warns of that.
#include "tessera/models/training/trainer.h"

#include <atomic>
#include <csignal>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/planner_library.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/training/bench.h"
#include "tessera/models/training/doctor.h"
#include "tessera/models/training/evaluate_run.h"
#include "tessera/models/training/verify_plan.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/spelling.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_verbs.h"

namespace {

using namespace tessera;

struct Arguments {
  std::string config, run, checkpoint, command;
  std::vector<std::string> overrides;
  int64_t steps = 50;
  bool json = false, verify_plan = false;
  TrainOptions train;
  ConfigLook look;
};

std::atomic<int> g_signal{0};

// The first SIGTERM or SIGINT asks the training to stop after its step; more of them change
// nothing.
void catch_signals() {
  static_assert(std::atomic<int>::is_always_lock_free);
  struct sigaction action {};
  action.sa_handler = [](int number) {
    int none = 0;
    g_signal.compare_exchange_strong(none, number);
  };
  action.sa_flags = SA_RESTART;
  for (int number : {SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
}

std::string result_table(const Config& config, const TrainResult& result) {
  const bool top5 = result.confusion.classes > 5;
  std::string text =
      fmt::format("{:<8}{:>10}{:>12}{}\n", "", "loss", "accuracy", top5 ? "  first five" : "");
  text += fmt::format("{:<8}{:>10.4f}{:>10.2f} %\n", "train", result.train_loss,
                      100 * result.train_accuracy);
  text += fmt::format("{:<8}{:>10.4f}{:>10.2f} %", "test", result.test_loss,
                      100 * result.test_accuracy);
  if (top5) text += fmt::format("{:>10.2f} %", 100 * result.test_top5);
  if (result.skipped > 0)
    text += fmt::format("\nskipped {} of {} batches, as train.non_finite says", result.skipped,
                        result.steps);
  if (result.best_step < 0) return text;
  const bool loss = config.checkpoint.best == BestBy::kLoss;
  text += loss ? fmt::format("\n{:<8}{:>10.4f}{:>12}", "best", result.best_value, "")
               : fmt::format("\n{:<8}{:>10}{:>10.2f} %", "best", "", 100 * result.best_value);
  return text + fmt::format("  on test, after step {}", result.best_step);
}

void say_result(const Config& config, const TrainResult& result) {
  if (const std::string table = result.confusion.text(); !table.empty()) say(table);
  say(result_table(config, result));
  say(fmt::format("final test accuracy {:.2f} % (loss {:.4f}, {} steps, {:.4g} epochs, {:.1f} s)",
                  100 * result.test_accuracy, result.test_loss, result.steps, result.epochs,
                  result.seconds));
}

int tell_result(const Config& config, const TrainResult& result) {
  if (result.stopped_by != 0) {
    say(fmt::format("stopped by {} after step {}; {}",
                    result.stopped_by == SIGTERM ? "SIGTERM" : "SIGINT", result.steps,
                    result.checkpoint.empty() ? "nothing is kept, as checkpoint.keep is 0"
                                              : "go on with --resume from " + result.checkpoint));
    return 128 + result.stopped_by;
  }
  say_result(config, result);
  return 0;
}

// What a training came to is in its folder: that nobody could be told is no reason to fail.
void forgive_lost_lines(const Config& config) {
  const std::string fault = take_output_fault();
  if (fault.empty()) return;
  log(LogLevel::warning,
      fmt::format("training: {}; what was to be read there is in '{}'", fault, config.run.dir));
}

TrainResult train_and_say(const Config& config, const TrainOptions& options) {
  try {
    return train(config, say, options);
  } catch (const ResultNotKept& error) {
    say_result(config, error.result);
    throw;
  }
}

int run_train(const Arguments& arguments) {
  if (look_at_config(arguments.look, arguments.config, arguments.overrides, arguments.train))
    return 0;
  const Config config = load_config(arguments.config, arguments.overrides);
  if (arguments.verify_plan) {
    const VerifyResult verified = verify_plan(config);
    say(fmt::format(
        "plan verified: {} steps in the {:.1f} MiB of the plan, and in {:.1f} MiB with red "
        "zones, give the bits of {:.1f} MiB without a plan",
        verified.steps, static_cast<double>(verified.plan_bytes) / (1 << 20),
        static_cast<double>(verified.arena_bytes) / (1 << 20),
        static_cast<double>(verified.unplanned_bytes) / (1 << 20)));
  }
  catch_signals();
  TrainOptions options = arguments.train;
  options.stop = &g_signal;
  options.command = arguments.command;
  const TrainResult result = train_and_say(config, options);
  const int code = tell_result(config, result);
  forgive_lost_lines(config);
  return code;
}

int run_eval(const Arguments& arguments) {
  for (const std::string& text : arguments.overrides)
    for (const char* group : {"train.", "optimizer.", "schedule.", "checkpoint."})
      if (text.substr(text.starts_with('~') ? 1 : 0).starts_with(group))
        throw ConfigError(
            fmt::format("eval: '{}' has no effect on an evaluation; leave it out", text));
  TrainResult result = evaluate_run(arguments.run, arguments.checkpoint, arguments.overrides, say);
  const std::string top5 =
      result.confusion.classes > 5
          ? fmt::format(", {:.2f} % among the first five", 100 * result.test_top5)
          : "";
  say(fmt::format("test accuracy {:.2f} %{} (loss {:.4f})", 100 * result.test_accuracy, top5,
                  result.test_loss));
  return 0;
}

int run_bench(const Arguments& arguments) {
  BenchResult r = bench(load_config(arguments.config, arguments.overrides), arguments.steps);
  if (arguments.json) {
    say(r.json());
  } else {
    say(fmt::format(
        "{:.1f} images/s  step {:.2f} ms (p95 {:.2f})  first {:.2f} ms  compile {:.2f} ms"
        "  peak {:.1f} MiB  {} threads  {} kernels  loss {:.4f}",
        r.images_per_second, r.step_ms_p50, r.step_ms_p95, r.first_step_ms, r.compile_ms,
        static_cast<double>(r.peak_bytes) / (1 << 20), r.threads, r.kernels, r.loss));
  }
  return 0;
}

int run_doctor(const Arguments& arguments) {
  int exit_code = 0;
  for (const Finding& found : examine(load_config(arguments.config, arguments.overrides))) {
    const char* state = found.exit_code != 0 ? "problem" : found.warning ? "warning" : "ok";
    std::string text = found.text;
    for (size_t at = 0; (at = text.find('\n', at)) != text.npos; ++at) text.insert(at + 1, 21, ' ');
    say(fmt::format("{:<8} {:<11} {}", state, found.what, text));
    if (exit_code == 0) exit_code = found.exit_code;
  }
  return exit_code;
}

int run_devices(const Arguments&) {
  for (const DeviceInfo& info : physical_devices())
    say(fmt::format("{}  {}  {:.1f} GiB", info.device.name(), info.description,
                    static_cast<double>(info.memory_bytes) / (1 << 30)));
  if (std::string reason = why_no_gpu(); !reason.empty()) say("no GPU: " + reason);
  return 0;
}

CLI::App* with_config(CLI::App* app, Arguments& arguments) {
  app->add_option("--config", arguments.config, "YAML file")->required();
  app->add_option("overrides", arguments.overrides, "key=value, dotted: train.steps=50");
  return app;
}

// Words that CLI11 would only answer with what is missing.
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
  require_verb(app, words[0]);
  const CLI::App& verb = *app.get_subcommand(words[0]);
  const bool has_verbs = !verb.get_subcommands([](const CLI::App*) { return true; }).empty();
  if (has_verbs && words.size() > 1 && !words[1].starts_with('-')) require_verb(verb, words[1]);
}

// A file without --config is taken for an override.
void hint_at_config(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i)
    if ((words[i].ends_with(".yaml") || words[i].ends_with(".yml")) &&
        words[i].find('=') == std::string::npos)
      fmt::print(stderr, "did you mean '--config {}'?\n", words[i]);
}

// train is what is meant where an option of it is the first word, or the first behind a planner.
bool train_is_meant(const CLI::App& app, const CLI::App& train,
                    const std::vector<std::string>& words) {
  size_t first = 0;
  while (first < words.size() && words[first].starts_with("--planner-lib"))
    first += words[first] == "--planner-lib" ? 2 : 1;
  if (first >= words.size()) return false;
  const std::string name = words[first].substr(0, words[first].find('='));
  return name.starts_with("--") && app.get_option_no_throw(name) == nullptr &&
         train.get_option_no_throw(name) != nullptr;
}

int dispatch(int argc, char** argv) {
  CLI::App app{"Trains CNN image classifiers in a memory plan known before the first batch.",
               "trainer"};
  Arguments arguments;
  arguments.command = shell_command(argc, argv);
  Verb verb;
  auto add = [&](const char* name, const char* help, int (*run)(const Arguments&)) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([&, run] { verb = [&, run] { return run(arguments); }; });
    return sub;
  };
  app.require_subcommand(1);
  app.set_version_flag("--version", "trainer of Tessera " TESSERA_VERSION);
  app.fallthrough();
  app.add_option("--planner-lib", "a shared library with a planner, to be named in memory.planner")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->each([](const std::string& path) { load_planner(path); });
  CLI::App* train =
      with_config(add("train", "train a model (the default verb)", run_train), arguments);
  train->add_flag("--verify-plan", arguments.verify_plan,
                  "first run some steps with the plan watched and compare with an unplanned run");
  CLI::Option* resume = train->add_flag(
      "--resume{auto}", arguments.train.resume,
      "go on from the newest good checkpoint of the run folder, or from =PATH: a run folder or a "
      "checkpoint");
  train
      ->add_flag("--overwrite", arguments.train.overwrite,
                 "begin anew in a run folder that holds a training")
      ->excludes(resume);
  CLI::App* eval = add("eval", "evaluate the weights of a run folder", run_eval);
  eval->add_option("--run", arguments.run, "run folder")->required();
  eval->add_option("--checkpoint", arguments.checkpoint,
                   "its 'best' or 'latest' checkpoint, or a file, instead of the final weights");
  eval->add_option("overrides", arguments.overrides, "key=value, dotted");
  add_config_look(*train, arguments.look);
  train->get_option("--verify-plan")->excludes(train->get_option("--print-config"));
  add_plan_verb(app, verb);
  add_config_verbs(app, verb);
  add_data_verbs(app, verb);
  CLI::App* bench = with_config(add("bench", "time the training step", run_bench), arguments);
  bench->add_option("--steps", arguments.steps, "steps to time")->check(CLI::Range(1, 1000000));
  bench->add_flag("--json", arguments.json, "as JSON");
  with_config(add("doctor", "can this machine run it? Writes nothing", run_doctor), arguments);
  add("devices", "list the devices", run_devices);

  std::vector<std::string> words(argv + 1, argv + argc);
  if (train_is_meant(app, *train, words)) words.insert(words.begin(), "train");
  require_known_words(app, *train, words);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) require_known_options(app, words);
    if (app.exit(error) == 0) return 0;
    if (error.get_name() == "RequiredError" && arguments.config.empty()) hint_at_config(words);
    return 2;
  }
  return verb();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return end_program("trainer", dispatch(argc, argv));
  } catch (const tessera::ConfigErrors& errors) {  // each begins with its place
    fmt::print(stderr, "{}\n", errors.what());
    return errors.exit_code();
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "trainer: {}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    return end_program("trainer", error);
  }
}
