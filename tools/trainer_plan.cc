// trainer plan: shows the memory that a configuration needs, before it runs.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/graph/lower.h"
#include "tessera/graph/plan_diff.h"
#include "tessera/memory/plan_csv.h"
#include "tessera/memory/plan_draw.h"
#include "tessera/memory/recompute/recompute_text.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/batch_search.h"
#include "tessera/models/training/device_choice.h"
#include "tessera/models/training/memory_budget.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/processes.h"
#include "tessera/models/training/remedies.h"
#include "tessera/models/training/run.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/json.h"
#include "tessera/tools/ablation.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

constexpr int kTooLarge = 4;

struct Arguments {
  std::string config, csv, html, svg, why, recompute;
  std::vector<std::string> overrides, beside, diff;
  int64_t max_bytes = -1, limit = -1, device_memory = -1;
  std::string gpu_limit_name = "--device-memory";
  double slowdown = 0;
  int processes = 1;
  bool json = false, draw = false, max_batch = false, ablation = false, budgets = false;
  CompileOptions compile;
};

Run planned_run(const Arguments& arguments, const Config& config) {
  const int processes = arguments.processes;
  Run run = Run::shared(config, processes > 1 ? std::make_shared<Exchange>(0, processes) : nullptr,
                        arguments.compile);
  require_shareable(run);
  return run;
}

// Returns the plan, or a recording of eager mode, which has no plan.
PlanPicture picture_of(const Run& run) {
  const Config& config = run.config();
  const std::string title = fmt::format("{}, batch {}, ", config.model.name,
                                        run.steps().train.front());  // data.batch, or all images
  if (config.mode == Mode::kEager) return eager_picture(run, title + "eager");
  return plan(run).picture(title + "planner " + config.memory.planner);
}

// Writes a page with the plan, and optionally with that of other settings next to it.
void write_html(const Arguments& arguments, const Run& run) {
  std::vector<PlanPicture> pictures = {picture_of(run)};
  if (!arguments.beside.empty()) {
    std::vector<std::string> overrides = arguments.overrides;
    overrides.insert(overrides.end(), arguments.beside.begin(), arguments.beside.end());
    pictures.push_back(
        picture_of(planned_run(arguments, load_config(arguments.config, overrides))));
  }
  write_file(arguments.html, draw_plan_html(pictures));
  write_out(fmt::format("{}: {} tensors\n", arguments.html, pictures[0].labels.size()));
}

// Returns "%12 conv2d  float32[4x8x8x16]  layer1.0", without the last user.
std::string one_line(const BufferLabel& label) {
  return label.name + "  " + label.details.substr(0, label.details.find('\n'));
}

// Draws the plan as SVG, or for the terminal.
void draw(const Arguments& arguments, const Run& run) {
  PlanPicture picture = picture_of(run);
  for (size_t i = 0; i < picture.labels.size(); ++i)
    picture.problem.buffers[i].id = one_line(picture.labels[i]);
  if (arguments.svg.empty()) {
    write_out(fmt::format("{}\n", draw_plan_text(picture.problem, picture.plan, 72, 24, 16)));
  } else {
    write_file(arguments.svg, draw_plan_svg(picture.problem, picture.plan));
    write_out(fmt::format("{}: {} tensors\n", arguments.svg, picture.labels.size()));
  }
}

// Returns "%12.conv2d.layer1.0.conv1", with a number appended if that is not unique.
std::string readable_id(const PlannedTensor& tensor, std::set<std::string>& taken) {
  std::string id = fmt::format("{}.{}", tensor.name, tensor.op);
  if (!tensor.module_path.empty()) id += "." + tensor.module_path;
  std::replace(id.begin(), id.end(), ' ', '_');
  std::string unique = id;
  for (int n = 2; !taken.insert(unique).second; ++n) unique = fmt::format("{}.{}", id, n);
  return unique;
}

// Writes the planning problem for `planner` and other programs that read CSV.
void write_csv(const Arguments& arguments, const Run& run) {
  // Only the problem is needed.
  PlanReport report = plan(run.with([](Config& config) { config.memory.planner = "in_order"; }));
  std::set<std::string> taken;
  for (size_t i = 0; i < report.blocks.size(); ++i) {
    report.problem.buffers[i].id = readable_id(report.blocks[i], taken);
  }
  const std::string text = write_plan_csv(report.problem);
  if (arguments.csv == "-") {
    write_out(text);
  } else {
    write_file(arguments.csv, text);
  }
}

// Treats auto as the CPU: planning does not load a driver to resolve it.
Device parse_or_cpu(const std::string& device) {
  return device == "auto" ? Device{} : parse_device(device);
}

const char* decoders_text(bool complete) {
  return complete ? "" : "; plus the memory of the image decoders";
}

// Prints the largest batch that trains within the limit, and its need.
int max_batch(const Run& run, const Arguments& arguments) {
  const Config& config = run.config();
  int64_t limit = arguments.limit;
  const bool on_gpu = arguments.device_memory >= 0;
  if (on_gpu) limit = arguments.device_memory;
  if (const auto most = host_limit(config); limit < 0 && most) limit = most->bytes;
  if (limit < 0 && config.memory.budget) limit = config.memory.budget->bytes;  // negative: auto
  if (limit < 0)
    throw ConfigError(
        "plan: --max-batch needs --limit 8GiB, or memory.limit or a memory.budget in the file");
  const bool budgeted = arguments.slowdown > 0;
  BatchSearch search = budgeted ? BatchSearch(run, arguments.slowdown, !run.device().is_cpu())
                                : BatchSearch(run, on_gpu);
  const int64_t batch =
      budgeted || on_gpu ? search.largest(run, limit).batch : largest_batch(run, limit);
  const Run largest = run.with([&](Config& c) {
    c.data.batch = std::max<int64_t>(batch, 1);
    if (batch == 0) c.memory.budget.reset();  // without effect
    if (budgeted && batch > 0) c.memory.budget = ByteSize{limit};
    if (!on_gpu && !budgeted) c.memory.limit = ByteSize{limit};
  });
  const MemoryNeed need = memory_need(largest);
  const std::vector<MemoryItem>& blocks = on_gpu ? need.gpu_blocks : need.blocks;
  const int64_t bytes = total_bytes(blocks);
  if (arguments.json) {
    write_out(Json::object({{"max_batch", batch},
                            {"limit_bytes", limit},
                            {"overhead", rounded(need.report.budget.overhead(), 6)},
                            {fmt::format("bytes_at_batch_{}", std::max<int64_t>(batch, 1)), bytes},
                            {"complete", need.complete}})
                  .text() +
              "\n");
  } else {
    write_out(fmt::format("largest batch {}: {} bytes of {}{}\n", batch, bytes, limit,
                          decoders_text(need.complete)));
    if (budgeted)
      write_out(fmt::format("with {}\n", budget_text(largest.config(), need.report.budget)));
    for (const MemoryItem& block : blocks)
      write_out(fmt::format("  {:<24} {:>14}\n", block.name, block.bytes));
  }
  return batch > 0 ? 0 : kTooLarge;
}

// Prints the curve of memory and time as a table, or writes a page or a drawing.
int budgets(const Arguments& arguments, const Run& run) {
  const BudgetCurve curve = budget_curve(run);
  if (!arguments.html.empty()) write_file(arguments.html, curve.html());
  if (!arguments.svg.empty()) write_file(arguments.svg, curve.svg());
  print_report(curve.report(), arguments.json, -1);
  return 0;
}

// Writes the recomputation problem of the step, for `planner recompute` and other programs.
void export_recompute(const Arguments& arguments, const Config& config) {
  const std::string text = write_recompute(training_problem(config));
  if (arguments.recompute == "-") {
    write_out(text);
  } else {
    write_file(arguments.recompute, text);
  }
}

// Reports on stderr each need that exceeds its limit, with what would fit: --max-bytes and
// memory.limit for host memory, --device-memory and memory.gpu_limit for the GPU's.
int check_need(const Arguments& arguments, const Run& run, const PlanReport& report) {
  const Config& config = run.config();
  int code = 0;
  const auto check = [&](const std::string& name, int64_t allowed, int64_t need,
                         const std::string& where) {
    if (need <= allowed) return;
    fmt::print(stderr,
               "trainer: the training needs {} ({} bytes){}, {} more than the {} of {}{}\n"
               "what would fit:\n{}",
               byte_text(need), need, where, byte_text(need - allowed), byte_text(allowed), name,
               decoders_text(report.parts_complete), remedies_text(run, allowed, !where.empty()));
    code = kTooLarge;
  };
  const auto check_gpu = [&](const std::string& name, int64_t allowed) {
    check(name, allowed, report.gpu_need(), " on " + report.device);
  };
  if (arguments.max_bytes >= 0) check("--max-bytes", arguments.max_bytes, report.need(), "");
  if (const auto limit = host_limit(config)) check(limit->key, limit->bytes, report.need(), "");
  if (arguments.device_memory >= 0) check_gpu(arguments.gpu_limit_name, arguments.device_memory);
  if (config.memory.gpu_limit) check_gpu("memory.gpu_limit", config.memory.gpu_limit->bytes);
  return code;
}

// Returns a described device if the configuration names a GPU, since planning needs none
// (deviceless planning). Its properties are those of the named model, of the GPU in this computer,
// or unknown. Sets config.device to the described device.
std::unique_ptr<DescribedDevice> describe_device(Arguments& arguments, Config& config) {
  if (const DeviceProperties* properties = described_gpu(config.device)) {
    config.device = "gpu:0";
    if (arguments.device_memory < 0) {
      arguments.device_memory = properties->memory_bytes;
      arguments.gpu_limit_name = properties->name;
    }
    return std::make_unique<DescribedDevice>(parse_device(config.device), properties);
  }
  if (config.device != "auto") {
    const Device device = parse_device(config.device);
    if (!device.is_cpu()) {
      // Without a GPU, do not load the driver.
      const std::vector<DeviceInfo> all =
          nvidia_gpu_is_here() ? logical_devices() : std::vector<DeviceInfo>();
      const bool is_there = std::ranges::count(all, device, &DeviceInfo::device) > 0;
      return std::make_unique<DescribedDevice>(device,
                                               is_there ? context(device).properties() : nullptr);
    }
  }
  if (arguments.device_memory >= 0)
    throw ConfigError(fmt::format(
        "plan: --device-memory requires a GPU, but device is {}; add device=gpu", config.device));
  return nullptr;
}

// Returns a remark on the source of a described GPU's scratch sizes.
std::string scratch_text(Device device) {
  const DeviceProperties* properties = context(device).properties();
  if (properties == nullptr)
    return "scratch memory is known only for matrix products; name a GPU, such as " +
           fmt::format("device=gpu:{}, to include convolutions", gpu_profile_names().front());
  if (!kCuda) return "this build has no GPU back end, so the scratch of convolutions is unknown";
  return fmt::format("scratch of convolutions as reported by cuDNN for {}{}", properties->name,
                     properties->origin.empty() ? "" : ", " + properties->origin);
}

// Prints the caveats of the plan.
void print_remarks(const Arguments& arguments, const Run& run, const PlanReport& report) {
  const Config& config = run.config();
  for (const std::string& line : config_notes(run)) write_out(line + "\n");
  if (const Device device = parse_or_cpu(config.device); is_described(device))
    write_out(
        fmt::format("planned for {} without using it: blocks at multiples of {} bytes, memory "
                    "needed {}{}; {}\n",
                    report.device, report.alignment, byte_text(report.gpu_need()),
                    arguments.device_memory >= 0 ? " of " + byte_text(arguments.device_memory) : "",
                    scratch_text(device)));
  const auto limit = host_limit(config);
  if (!limit) return;
  const int64_t over = report.need() - limit->bytes;
  write_out(fmt::format("{} is {}: {} ({} needed)\n", limit->key, byte_text(limit->bytes),
                        over > 0 ? "exceeded by " + byte_text(over) : "sufficient",
                        byte_text(report.need())));
}

void print_report(const Arguments& arguments, const Run& run, const PlanReport& report) {
  if (!arguments.why.empty()) {
    write_out(fmt::format("{}", report.why(arguments.why)));
  } else if (arguments.json) {
    write_out(fmt::format("{}\n", report.json()));
  } else {
    write_out(fmt::format("{}\n", report.text()));
    print_remarks(arguments, run, report);
  }
}

// Throws if another option also writes to standard output, as "--csv -" does.
void check_terminal(const Arguments& arguments) {
  if (arguments.recompute == "-" && (arguments.json || arguments.draw || arguments.csv == "-"))
    throw ConfigError(
        "plan: --export-recompute - excludes --json, --draw and --csv -; write to a file");
  if (arguments.csv != "-") return;
  const auto refuse = [](bool given, const char* option) {
    if (given)
      throw ConfigError(
          fmt::format("plan: --csv - and {} write to the same output; give --csv a file", option));
  };
  refuse(arguments.json, "--json");
  refuse(arguments.draw, "--draw");
  refuse(!arguments.html.empty(), "--html");
  refuse(!arguments.svg.empty(), "--svg");
  refuse(!arguments.why.empty(), "--why");
}

int run(Arguments arguments) {
  if (!arguments.diff.empty()) {
    const std::string &a = arguments.diff[0], &b = arguments.diff[1];
    write_out(diff_plans(read_file(a), a, read_file(b), b));
    return 0;
  }
  if (arguments.config.empty())
    throw ConfigError("plan: --config F, --model NAME or --diff A.json B.json is needed");
  if (arguments.ablation) {
    print_plan_ablation(arguments.config, arguments.overrides, arguments.json);
    return 0;
  }
  check_terminal(arguments);
  const bool drawn = arguments.draw || !arguments.svg.empty();
  if (!arguments.beside.empty() && (arguments.html.empty() || drawn))
    throw ConfigError(
        "plan: --beside requires --html F; --draw and --svg show one plan, so run the command a "
        "second time for the other settings");
  Config config = load_config(arguments.config, arguments.overrides);
  const auto described = describe_device(arguments, config);
  if (described && config.mode == Mode::kEager && !arguments.html.empty())
    throw ConfigError(
        fmt::format("plan: --html runs mode: eager on the device to draw it, but {} is only "
                    "described here; remove --html, or set device=cpu",
                    config.device));
  const Run run = planned_run(arguments, config);
  if (arguments.max_batch) return max_batch(run, arguments);
  if (arguments.budgets) return budgets(arguments, run);
  const bool answered = drawn || !arguments.html.empty() || !arguments.csv.empty() ||
                        !arguments.recompute.empty() || !arguments.compile.dump_after.empty();
  const bool reported = arguments.json || !arguments.why.empty() || !answered;
  if (!arguments.csv.empty()) write_csv(arguments, run);
  if (!arguments.recompute.empty()) export_recompute(arguments, config);
  if (!arguments.html.empty()) write_html(arguments, run);
  if (drawn) draw(arguments, run);
  const bool checked =
      arguments.max_bytes >= 0 || arguments.device_memory >= 0 || host_limit(config);
  if (!reported && !checked && arguments.compile.dump_after.empty()) return 0;
  const PlanReport report = plan(run);  // prints the graph of --dump-after
  if (reported) print_report(arguments, run, report);
  flush_out();
  return check_need(arguments, run, report);
}

// Excludes options that answer different questions or write to the same output.
void exclude(CLI::App& plan) {
  const auto apart = [&](const char* name, std::initializer_list<const char*> others) {
    for (const char* other : others) plan.get_option(name)->excludes(plan.get_option(other));
  };
  apart("--diff",
        {"--config", "--model", "overrides", "--json", "--draw", "--csv", "--html", "--svg",
         "--beside", "--why", "--max-bytes", "--max-batch", "--limit", "--dump-after",
         "--disable-pass", "--ablation", "--budgets", "--export-recompute"});
  apart("--budgets", {"--draw", "--csv", "--beside", "--why", "--max-bytes", "--max-batch",
                      "--dump-after", "--disable-pass", "--ablation", "--export-recompute"});
  apart("--export-recompute", {"--max-batch", "--dump-after", "--ablation"});
  apart("--ablation", {"--draw", "--csv", "--html", "--svg", "--beside", "--why", "--max-bytes",
                       "--max-batch", "--dump-after", "--disable-pass"});
  apart("--max-batch", {"--draw", "--csv", "--html", "--svg", "--beside", "--why", "--max-bytes",
                        "--dump-after", "--disable-pass"});
  apart("--dump-after", {"--json", "--draw", "--csv", "--html", "--svg", "--beside", "--why"});
  apart("--json", {"--draw", "--html", "--svg", "--why"});
  apart("--draw", {"--svg", "--why"});
  apart("--processes", {"--diff", "--ablation", "--export-recompute"});
  apart("--device-memory", {"--diff", "--limit"});
  plan.get_option("--limit")->needs(plan.get_option("--max-batch"));
  plan.get_option("--slowdown")->needs(plan.get_option("--max-batch"));
}

}  // namespace

void add_plan_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* plan = app.add_subcommand("plan", "show the memory of a training step, without a run");
  add_config_options(*plan, arguments->config, arguments->overrides);
  plan->add_flag("--json", arguments->json, "the whole plan as JSON");
  plan->add_flag("--draw", arguments->draw, "draw the plan in the terminal, time to the right");
  plan->add_option("--csv", arguments->csv,
                   "write the planning problem as CSV, for planner; - is standard output");
  plan->add_flag("--budgets", arguments->budgets,
                 "table of what each memory.budget costs, from the smallest to none; with\n"
                 "--html or --svg also as a picture");
  plan->add_option("--export-recompute", arguments->recompute,
                   "write the recomputation problem for planner recompute; - is standard output");
  plan->add_option("--html", arguments->html, "write the plan as HTML, with hover and search");
  plan->add_option("--svg", arguments->svg, "write one plan as SVG, without hover and search");
  plan->add_option("--beside", arguments->beside,
                   "key=value of a second plan, shown next to the first in --html; repeatable;\n"
                   "mode=eager is run for two steps, and the picture shows what it allocated")
      ->allow_extra_args(false);
  plan->add_option(
      "--why", arguments->why,
      "explain tensors by name, op or module path: their offsets and their last users");
  plan->add_option("--diff", arguments->diff, "show what changed between two --json files")
      ->expected(2);
  add_bytes(*plan, "--max-bytes", arguments->max_bytes,
            "exit with 4 if the training needs more (2GiB)");
  plan->add_flag("--max-batch", arguments->max_batch, "the largest data.batch that fits --limit");
  add_bytes(*plan, "--limit", arguments->limit, "memory limit for --max-batch (8GiB)");
  add_percent(*plan, "--slowdown", arguments->slowdown,
              "with --max-batch: allowed overhead of recomputation, estimated (5%)");
  add_bytes(*plan, "--device-memory", arguments->device_memory,
            "memory of the GPU that device names, which need not be present (80GiB): exit with\n"
            "4 if the training needs more of it; with --max-batch: the limit");
  plan->add_option("--processes", arguments->processes,
                   "the memory of one of so many processes (mpirun) that share the training")
      ->check(CLI::Range(1, 4096));
  plan->add_option("--dump-after", arguments->compile.dump_after,
                   "print the graph after this pass, or after \"capture\"");
  plan->add_option("--disable-pass", arguments->compile.disabled_passes,
                   "disable a pass; may be repeated: " + pass_names())
      ->allow_extra_args(false);
  plan->add_flag("--ablation", arguments->ablation,
                 "measure each technique: bytes without each pass, and with other planners");
  exclude(*plan);
  plan->callback([arguments, &command] { command = [arguments] { return run(*arguments); }; });
}

}  // namespace tessera
