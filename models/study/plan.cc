#include "tessera/models/study/plan.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/storage.h"
#include "tessera/graph/arena.h"
#include "tessera/graph/arena_budget.h"
#include "tessera/memory/plan_csv.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

PlanReport plan(const Run& run) {
  MemoryNeed need = memory_need(run);
  need.report.inference = planned_inference(run.config(), run.image()).text();
  need.report.add_parts(need.blocks);
  need.report.add_parts(need.gpu_blocks, true);
  need.report.parts_complete = need.complete;
  return std::move(need.report);
}

namespace {

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

const char* decoders_text(bool complete) {
  return complete ? "" : "; plus the memory of the image decoders";
}

// The results of a run by name: those of each step, then all persistent values.
struct Trace {
  std::vector<std::string> names;
  std::vector<std::vector<std::byte>> values;
  size_t arena_bytes = 0;

  void add(std::string name, const Tensor& tensor) {
    names.push_back(std::move(name));
    values.emplace_back(tensor.spec().bytes());
    copy_bytes(Device{}, values.back().data(), tensor.device(), tensor.impl()->data(),
               tensor.spec().bytes());
  }
};

// One way to run the same steps; allocates their memory only in run().
class Variant {
 public:
  Variant(const char* name, const Run& run, const CompileOptions& options)
      : name_(name),
        run_(run.as(Purpose::verification, DataNeed(), options)),
        session_(prepared_session(run_)) {}

  // Throws PlanInfeasible if the variant needs more than memory.limit.
  void require_fit() const {
    // The session, the batches, and two copies of the values: those of this run and the expected
    // ones.
    const Tensors persistent = session_->store().persistent();
    const std::optional<HostLimit> limited = host_limit(run_.config());
    const int64_t free = host_memory().free,
                  limit = limited    ? limited->bytes
                          : free > 0 ? free
                                     : INT64_MAX,
                  bytes = total_bytes(session_->regions()) +
                          total_bytes(other_blocks(run_, persistent)) +
                          2 * static_cast<int64_t>(session_->store().bytes());
    if (bytes <= limit) return;
    throw PlanInfeasible(fmt::format(
        "{}: --verify-plan also runs the steps {}, which needs {} ({} bytes), {} {}, over "
        "by {}; the training itself fits. Leave out --verify-plan, or verify with a "
        "smaller data.batch{}",
        limited ? limited->key : "memory", name_, byte_text(bytes), bytes,
        limited ? "the limit is" : "the free memory is", byte_text(limit), byte_text(bytes - limit),
        limited ? " or a higher limit" : ""));
  }

  // Runs the steps. Call it once: it frees the session's memory.
  Trace run(int64_t steps) {
    const std::unique_ptr<Session> session = std::move(session_);
    session->bind();
    const GeneratedBatches batches(run_.config(), *session);
    const RunSteps counts = run_.steps();
    Trace trace;
    for (int64_t i = 0; i < steps; ++i) {
      const bool evaluated = i % 3 == 2;
      const int64_t count = evaluated ? counts.train.back() : counts.train.front();
      CompiledStep& step = session->train_step(count);
      batches.fill(*session, step, i, count);
      step.submit();
      step.collect();
      trace.add(fmt::format("the loss of step {}", i), step.host_output(0));
      if (!evaluated) continue;
      const int64_t some = counts.evaluation.front();
      CompiledStep& evaluation = session->evaluation_step(some);
      batches.fill_images(evaluation, i, some);
      evaluation.submit();
      evaluation.collect();
      trace.add(fmt::format("the loss of the evaluation after step {}", i),
                evaluation.host_output(0));
    }
    for (const Tensor& tensor : session->store().persistent())
      trace.add(tensor.impl()->storage->name, tensor);
    trace.arena_bytes = session->arena_bytes();
    return trace;
  }

  // Throws InternalError if the traces differ in a bit.
  void require_same(const Trace& mine, const Trace& expected) const {
    for (size_t i = 0; i < mine.values.size(); ++i)
      if (mine.values[i] != expected.values[i])
        throw InternalError(fmt::format(
            "verify-plan: {} differs between the run {} (planner {}) and the run without a plan",
            mine.names[i], name_, run_.config().memory.planner));
  }

 private:
  const char* name_;
  const Run run_;
  std::unique_ptr<Session> session_;
};

PlanPicture eager_picture(const Run& run, const std::string& title) {
  const int64_t batch = run.steps().train.front();
  const Run eager = run.as(Purpose::timing, run.data_need()).with([&](Config& config) {
    config.data.batch = batch;
  });
  Session& session = eager.session();
  CompiledStep& step = session.train_step(batch);
  session.bind();
  const GeneratedBatches batches(eager.config(), session);
  const auto step_once = [&](int64_t index) {
    batches.fill(session, step, index, batch);
    step.submit();
  };
  step_once(0);  // fills the allocator's cache, as for every step but the first
  const AllocationTrace trace;
  step_once(1);
  return trace.picture(title);
}

}  // namespace

PlanDevice::PlanDevice(Config& config, int64_t memory) : memory_(memory) {
  if (const DeviceProperties* properties = described_gpu(config.device)) {
    config.device = "gpu:0";
    if (memory_ < 0) {
      memory_ = properties->memory_bytes;
      memory_name_ = properties->name;
    }
    described_ = std::make_unique<DescribedDevice>(parse_device(config.device), properties);
    return;
  }
  // Treats auto as the CPU: planning does not load a driver to resolve it.
  const Device device = config.device == "auto" ? Device{} : parse_device(config.device);
  if (!device.is_cpu()) {
    // Without a GPU, do not load the driver.
    const std::vector<DeviceInfo> all =
        nvidia_gpu_is_here() ? logical_devices() : std::vector<DeviceInfo>();
    const bool is_there = std::ranges::count(all, device, &DeviceInfo::device) > 0;
    described_ = std::make_unique<DescribedDevice>(
        device, is_there ? context(device).properties() : nullptr);
  } else if (memory >= 0) {
    throw ConfigError(fmt::format(
        "plan: --device-memory requires a GPU, but device is {}; add device=gpu", config.device));
  }
}

std::vector<std::string> PlanDevice::exceeded(const Run& run, const PlanReport& report,
                                              int64_t max_bytes) const {
  const Config& config = run.config();
  std::vector<std::string> messages;
  const auto check = [&](const std::string& name, int64_t allowed, int64_t need,
                         const std::string& where) {
    if (need <= allowed) return;
    messages.push_back(fmt::format(
        "the training needs {} ({} bytes){}, {} more than the {} of {}{}\n"
        "what would fit:\n{}",
        byte_text(need), need, where, byte_text(need - allowed), byte_text(allowed), name,
        decoders_text(report.parts_complete), remedies_text(run, allowed, !where.empty())));
  };
  const auto check_gpu = [&](const std::string& name, int64_t allowed) {
    check(name, allowed, report.gpu_need(), " on " + report.device);
  };
  if (max_bytes >= 0) check("--max-bytes", max_bytes, report.need(), "");
  if (const auto limit = host_limit(config)) check(limit->key, limit->bytes, report.need(), "");
  if (memory_ >= 0) check_gpu(memory_name_, memory_);
  if (config.memory.gpu_limit) check_gpu("memory.gpu_limit", config.memory.gpu_limit->bytes);
  return messages;
}

std::string PlanDevice::remarks(const Run& run, const PlanReport& report) const {
  const Config& config = run.config();
  std::string text;
  for (const std::string& line : config_notes(run)) text += line + "\n";
  if (is_described())
    text += fmt::format(
        "planned for {} without using it: blocks at multiples of {} bytes, memory needed {}{}; "
        "{}\n",
        report.device, report.alignment, byte_text(report.gpu_need()),
        memory_ >= 0 ? " of " + byte_text(memory_) : "", scratch_text(parse_device(config.device)));
  const auto limit = host_limit(config);
  if (!limit) return text;
  const int64_t over = report.need() - limit->bytes;
  return text + fmt::format("{} is {}: {} ({} needed)\n", limit->key, byte_text(limit->bytes),
                            over > 0 ? "exceeded by " + byte_text(over) : "sufficient",
                            byte_text(report.need()));
}

LargestBatch largest_batch_report(const Run& run, const PlanDevice& device, int64_t limit,
                                  double slowdown) {
  const Config& config = run.config();
  const bool on_gpu = device.memory() >= 0, budgeted = slowdown > 0;
  if (on_gpu) limit = device.memory();
  if (const auto most = host_limit(config); limit < 0 && most) limit = most->bytes;
  if (limit < 0 && config.memory.budget) limit = config.memory.budget->bytes;  // negative: auto
  if (limit < 0)
    throw ConfigError(
        "plan: --max-batch needs --limit 8GiB, or memory.limit or a memory.budget in the file");
  const int64_t batch =
      budgeted ? BatchSearch(run, !run.device().is_cpu(), slowdown).largest(run, limit).batch
      : on_gpu ? BatchSearch(run, true).largest(run, limit).batch
               : largest_batch(run, limit);
  const Run largest = run.with([&](Config& c) {
    c.data.batch = std::max<int64_t>(batch, 1);
    if (batch == 0) c.memory.budget.reset();  // without effect
    if (budgeted && batch > 0) c.memory.budget = ByteSize{limit};
    if (!on_gpu && !budgeted) c.memory.limit = ByteSize{limit};
  });
  const MemoryNeed need = memory_need(largest);
  const std::vector<MemoryItem>& blocks = on_gpu ? need.gpu_blocks : need.blocks;
  const int64_t bytes = total_bytes(blocks);
  LargestBatch found{batch, {}};
  found.report.add("max_batch", batch)
      .add("limit_bytes", limit)
      .add("overhead", rounded(need.report.budget.overhead(), 6))
      .add(fmt::format("bytes_at_batch_{}", std::max<int64_t>(batch, 1)).c_str(), bytes)
      .add("complete", need.complete)
      .line(fmt::format("largest batch {}: {} bytes of {}{}", batch, bytes, limit,
                        decoders_text(need.complete)));
  if (budgeted) found.report.line("with " + budget_text(largest.config(), need.report.budget));
  for (const MemoryItem& block : blocks)
    found.report.line(fmt::format("  {:<24} {:>14}", block.name, block.bytes));
  return found;
}

PlanPicture plan_picture(const Run& run) {
  const Config& config = run.config();
  const std::string title = fmt::format("{}, batch {}, ", config.model.name,
                                        run.steps().train.front());  // data.batch, or all images
  if (config.mode == Mode::kEager && is_described(run.device()))
    throw ConfigError(fmt::format(
        "plan: a picture of mode: eager runs it on the device, but {} is only described "
        "here; set device=cpu",
        config.device));
  if (config.mode == Mode::kEager) return eager_picture(run, title + "eager");
  return plan(run).picture(title + "planner " + config.memory.planner);
}

std::string problem_csv(const Run& run) {
  // Only the problem is needed.
  PlanReport report = plan(run.with([](Config& config) { config.memory.planner = "in_order"; }));
  std::set<std::string> taken;
  for (size_t i = 0; i < report.blocks.size(); ++i) {
    const PlannedTensor& tensor = report.blocks[i];
    std::string id = fmt::format("{}.{}", tensor.name, tensor.op);
    if (!tensor.module_path.empty()) id += "." + tensor.module_path;
    std::ranges::replace(id, ' ', '_');
    std::string& unique = report.problem.buffers[i].id = id;
    for (int n = 2; !taken.insert(unique).second; ++n) unique = fmt::format("{}.{}", id, n);
  }
  return write_plan_csv(report.problem);
}

BudgetCurve budget_curve(const Run& training, int count) {
  const auto start = std::chrono::steady_clock::now();
  BudgetTrade trade(training);
  const int64_t least = trade.floor(), most = std::max(trade.arena().plain().arena, least);
  BudgetCurve curve;
  const Config& config = trade.config();
  curve.title = fmt::format("{}, batch {}", config.model.name, config.data.batch);
  curve.strategy = config.memory.recompute;
  for (int i = 0; i < count; ++i) {
    const int64_t arena = least + (most - least) / (count - 1) * i;
    const int64_t budget = i + 1 < count ? arena : most;
    const ArenaBudget::Candidate* way = trade.arena().within(budget);
    BudgetRecord record = trade.arena().record(*way, budget);
    if (record.recomputed > 0) record.strategy = curve.strategy;
    curve.points.push_back(
        {trade.rest() + budget, trade.rest() + std::max(way->arena, least), std::move(record)});
  }
  curve.milliseconds = milliseconds_since(start);
  return curve;
}

RecomputeProblem training_problem(const Run& training) {
  return BudgetTrade(training).arena().problem();
}

Report BudgetCurve::report() const {
  Table table({{"budget_bytes", "budget"},
               {"need_bytes", "needed"},
               {"recomputed_nodes", "recomputed"},
               {"overhead", "more time"},
               {"min_overhead", "lower bound"}});
  for (const Point& point : points)
    table.add({byte_count(point.budget, 2), byte_count(point.bytes, 2), point.training.recomputed,
               percent(point.training.overhead(), 2, 6),
               percent(point.training.min_overhead(), 2, 6)});
  Report report;
  report.add("format", "tessera budgets 2")
      .add("title", title)
      .add("strategy", strategy)
      .add("points", "", std::move(table))
      .line(fmt::format("{}: total memory of the training and estimated time of a step; strategy "
                        "{}, computed in {:.0f} ms",
                        title, strategy, milliseconds));
  return report;
}

std::string BudgetCurve::svg() const {
  Curve found{strategy.c_str(), "#2b6cb0", {}}, bound{"bound", "#8a94a3", {}};
  const auto gibibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  for (const Point& point : points) {
    found.points.push_back({gibibytes(point.budget), 100 * point.training.overhead()});
    bound.points.push_back({gibibytes(point.budget), 100 * point.training.min_overhead()});
  }
  Chart chart{.title = title.c_str(), .y_title = "more time for a step, %", .curves = {}};
  chart.x_title = "memory.budget, GiB";
  chart.curves = {std::move(bound), std::move(found)};
  const std::string style =
      "<style>svg { background: #fff; font: 12px sans-serif } line { stroke: #8a94a340 } "
      "path { fill: none; stroke-width: 2 } text { fill: #445 } .title { font-weight: 600 }"
      "</style>";
  std::string picture = chart_svg(chart);
  const size_t end = picture.find('>');
  picture.insert(end + 1, style);
  picture.insert(4, " xmlns=\"http://www.w3.org/2000/svg\"");
  return picture;
}

std::string BudgetCurve::html() const {
  return page_head(title) + svg() + report().html() + kPageEnd;
}

VerifyResult verify_plan(const Run& run, int64_t steps) {
  const SettingsScope settings(run.settings());
  require_fit_ahead(run);
  const Run planned = run.with([](Config& config) { config.mode = Mode::kGraph; });
  const Run unplanned = planned.with([](Config& config) {
    config.memory.planner = "none";
    config.memory.budget.reset();  // so that recomputed values are compared with kept ones
  });
  CompileOptions replayed, watched;
  replayed.replay_plan = true;
  watched.verify_plan = true;
  Variant without("without a plan", unplanned, {});
  Variant real("with the plan as it is", planned, replayed);
  Variant guarded("with red zones in the plan", planned, watched);
  for (const Variant* way : {&without, &real, &guarded}) way->require_fit();
  const Trace expected = without.run(steps);
  VerifyResult result{steps, 0, 0, expected.arena_bytes};
  for (const auto& [way, bytes] :
       {std::pair(&guarded, &result.arena_bytes), {&real, &result.plan_bytes}}) {
    const Trace trace = way->run(steps);
    way->require_same(trace, expected);
    *bytes = trace.arena_bytes;
  }
  return result;
}

std::string VerifyResult::text() const {
  const auto mib = [](size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return fmt::format(
      "plan verified: {} steps with the plan ({:.1f} MiB), and with red zones ({:.1f} MiB), "
      "produce "
      "the same bits as without a plan ({:.1f} MiB)",
      steps, mib(plan_bytes), mib(arena_bytes), mib(unplanned_bytes));
}

}  // namespace tessera
