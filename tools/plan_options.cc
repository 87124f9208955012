#include "tessera/tools/plan_options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

// Excludes options that answer different questions or write to the same output.
void exclude_all(CLI::App& plan) {
  const std::vector<std::string> of_plan = {
      "--draw",      "--csv",        "--beside",       "--why",
      "--max-bytes", "--dump-after", "--disable-pass", "--export-recompute"};
  for (const char* question : {"--diff", "--ablation", "--max-batch", "--budgets"})
    exclude(plan, question, of_plan);
  for (const char* question : {"--diff", "--ablation", "--max-batch"})
    exclude(plan, question, {"--html", "--svg"});
  exclude(plan, "--diff",
          {"--config", "--model", "overrides", "--json", "--max-batch", "--limit", "--ablation",
           "--budgets", "--processes", "--device-memory"});
  exclude(plan, "--ablation", {"--max-batch", "--budgets", "--processes"});
  exclude(plan, "--max-batch", {"--budgets"});
  exclude(plan, "--export-recompute", {"--dump-after", "--processes"});
  exclude(plan, "--dump-after",
          {"--json", "--draw", "--csv", "--html", "--svg", "--beside", "--why"});
  exclude(plan, "--json", {"--draw", "--html", "--svg", "--why"});
  exclude(plan, "--draw", {"--svg", "--why"});
  exclude(plan, "--device-memory", {"--limit"});
  plan.get_option("--limit")->needs(plan.get_option("--max-batch"));
  plan.get_option("--slowdown")->needs(plan.get_option("--max-batch"));
}

}  // namespace

void PlanOptions::add_to(CLI::App& plan) {
  add_config_options(plan, config, overrides);
  plan.add_flag("--json", json, "the whole plan as JSON");
  plan.add_flag("--draw", draw, "draw the plan in the terminal, time to the right");
  plan.add_option("--csv", csv,
                  "write the planning problem as CSV, for planner; - is standard output");
  plan.add_flag("--budgets", budgets,
                "table of what each memory.budget costs, from the smallest to none; with\n"
                "--html or --svg also as a picture");
  plan.add_option("--export-recompute", recompute,
                  "write the recomputation problem for planner recompute; - is standard output");
  plan.add_option("--html", html, "write the plan as HTML, with hover and search");
  plan.add_option("--svg", svg, "write one plan as SVG, without hover and search");
  plan.add_option("--beside", beside,
                  "key=value of a second plan, shown next to the first in --html; repeatable;\n"
                  "mode=eager is run for two steps, and the picture shows what it allocated")
      ->allow_extra_args(false);
  plan.add_option("--why", why,
                  "explain tensors by name, op or module path: their offsets and their last users");
  plan.add_option("--diff", diff, "show what changed between two --json files")->expected(2);
  add_bytes(plan, "--max-bytes", max_bytes, "exit with 4 if the training needs more (2GiB)");
  plan.add_flag("--max-batch", max_batch, "the largest data.batch that fits --limit");
  add_bytes(plan, "--limit", limit, "memory limit for --max-batch (8GiB)");
  add_percent(plan, "--slowdown", slowdown,
              "with --max-batch: allowed overhead of recomputation, estimated (5%)");
  add_bytes(plan, "--device-memory", device_memory,
            "memory of the GPU that device names, which need not be present (80GiB): exit with\n"
            "4 if the training needs more of it; with --max-batch: the limit");
  plan.add_option("--processes", processes,
                  "the memory of one of so many processes (mpirun) that share the training")
      ->check(CLI::Range(1, 4096));
  plan.add_option("--dump-after", compile.dump_after,
                  "print the graph after this pass, or after \"capture\"");
  add_disable_pass(plan, compile);
  plan.add_flag("--ablation", ablation,
                "measure each technique: bytes without each pass, and with other planners");
  exclude_all(plan);
}

void PlanOptions::check() const {
  if (config.empty() && diff.empty())
    throw ConfigError("plan: --config F, --model NAME or --diff A.json B.json is needed");
  if (!beside.empty() && (html.empty() || is_drawn()))
    throw ConfigError(
        "plan: --beside requires --html F; --draw and --svg show one plan, so run the command a "
        "second time for the other settings");
  const auto refuse = [](bool given, const char* option, const char* other) {
    if (given)
      throw ConfigError(fmt::format("plan: {0} - and {1} write to the same output; give {0} a file",
                                    option, other));
  };
  for (const auto& [option, path] : {std::pair("--csv", csv), {"--export-recompute", recompute}}) {
    if (path != "-") continue;
    refuse(json, option, "--json");
    refuse(draw, option, "--draw");
    refuse(!html.empty(), option, "--html");
    refuse(!svg.empty(), option, "--svg");
    refuse(!why.empty(), option, "--why");
  }
  refuse(csv == "-" && recompute == "-", "--csv", "--export-recompute -");
}

}  // namespace tessera
