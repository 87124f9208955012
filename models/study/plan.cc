#include "tessera/models/study/plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/graph/arena_budget.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/report_parts.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_budget.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

PlanReport plan(const Run& run) {
  MemoryNeed need = memory_need(run);
  need.report.inference = planned_inference(run.config(), run.image()).text();
  for (const MemoryItem& block : need.blocks)
    need.report.add_part(block.name, static_cast<int64_t>(block.bytes));
  for (const MemoryItem& block : need.gpu_blocks)
    need.report.add_part(block.name, static_cast<int64_t>(block.bytes), true);
  need.report.parts_complete = need.complete;
  return std::move(need.report);
}

PlanPicture eager_picture(const Run& run, const std::string& title) {
  const int64_t batch = run.steps().train.front();
  const Run eager = run.as(Purpose::timing, run.data_need()).with([&](Config& config) {
    config.mode = Mode::kEager;
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

namespace {

double gibibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

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
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  curve.milliseconds = took.count();
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

}  // namespace tessera
