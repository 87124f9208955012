#include "tessera/models/training/budget_curve.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/arena_budget.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/run/report_chart.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/profile_costs.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

constexpr ByteSize kLongest{9'999'999'999'999};

// The step of a training for a full batch, and what can be done about its arena.
class Trade {
 public:
  // A checkpoint holds the configuration, and so the text of `budget`: at first the longest.
  explicit Trade(const Config& given, const DataNeed& data,
                 std::optional<ByteSize> budget = kLongest)
      : config_(without_budget(given)),
        data_(data),
        session_(prepared_session(config_, data_, Purpose::training)),
        planner_(*find_planner(config_.memory.planner)),
        costs_(costs_named(config_.memory.costs)),
        arena_(of(*step(run_steps(config_, data_, Purpose::training).train.front()))) {
    Config counted = config_;
    counted.memory.budget = budget;
    const MemoryNeed need = memory_need(*session_, counted, data_, Purpose::training);
    rest_ = (session_->device().is_cpu() ? need.bytes() : need.gpu_bytes()) - need.report.arena;
    floor_ = arena_.lowest().arena;
    const RunSteps steps = run_steps(config_, data_, Purpose::training);
    for (const int64_t count : steps.train) raise_floor(*step(count));
    for (const int64_t count : steps.evaluation)
      raise_floor(*session_->evaluation_step(count).program());
  }

  ArenaBudget& arena() { return arena_; }
  int64_t rest() const { return rest_; }    // all but the arena
  int64_t floor() const { return floor_; }  // of the arena: no step of the training fits in less
  const std::string& strategy() const { return config_.memory.recompute; }

 private:
  static Config without_budget(Config config) {
    config.memory.budget.reset();
    config.mode = Mode::kGraph;
    return config;
  }
  Program* step(int64_t count) { return session_->train_step(count).program(); }
  ArenaBudget of(const Program& program) {
    const RecomputeStrategy& strategy = *find_recompute_strategy(config_.memory.recompute);
    return {program.compiled().graph,
            program.compiled().scratch_bytes,
            program.compiled().device(),
            true,
            planner_,
            strategy,
            *costs_};
  }
  // A step that fits as it is sets none.
  void raise_floor(const Program& program) {
    if (static_cast<int64_t>(program.compiled().arena_bytes()) > floor_)
      floor_ = std::max(floor_, of(program).lowest().arena);
  }

  const Config config_;
  const DataNeed data_;
  std::unique_ptr<Session> session_;
  const Planner& planner_;
  const std::shared_ptr<const StepCosts> costs_;
  ArenaBudget arena_;
  int64_t rest_ = 0, floor_ = 0;
};

double percent(double part) { return 100 * part; }
double gibibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

BudgetCurve budget_curve(const Config& config, int count) {
  const auto start = std::chrono::steady_clock::now();
  Trade trade(config, known_data(config));
  const int64_t least = trade.floor(), most = std::max(trade.arena().plain().arena, least);
  BudgetCurve curve;
  curve.title = fmt::format("{}, batch {}", config.model.name, config.data.batch);
  curve.strategy = trade.strategy();
  for (int i = 0; i < count; ++i) {
    const int64_t arena = least + (most - least) / (count - 1) * i;
    const int64_t budget = i + 1 < count ? arena : most;
    const ArenaBudget::Way* way = trade.arena().within(budget);
    BudgetRecord record = trade.arena().record(*way, budget);
    if (record.again > 0) record.strategy = curve.strategy;
    curve.points.push_back(
        {trade.rest() + budget, trade.rest() + std::max(way->arena, least), std::move(record)});
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  curve.milliseconds = took.count();
  return curve;
}

int64_t least_budget(const Config& config, const DataNeed& data, double slowdown) {
  Trade trade(config, data, config.memory.budget ? config.memory.budget : kLongest);
  const double extra = slowdown * static_cast<double>(trade.arena().plain().cost);
  const int64_t arena =
      trade.arena().lowest(extra < 1e18 ? static_cast<int64_t>(extra) : INT64_MAX).arena;
  return trade.rest() + std::max(arena, trade.floor());
}

RecomputeProblem training_problem(const Config& config) {
  return Trade(config, known_data(config)).arena().problem();
}

std::string BudgetCurve::text() const {
  std::string text = fmt::format("{:>12} {:>12} {:>8} {:>12} {:>12}\n", "budget", "needed", "again",
                                 "more time", "at least");
  for (const Point& point : points)
    text += fmt::format("{:>12} {:>12} {:>8} {:>10.2f} % {:>10.2f} %\n", byte_text(point.budget),
                        byte_text(point.bytes), point.training.again,
                        percent(point.training.price()), percent(point.training.least_price()));
  return text + fmt::format(
                    "{}: all of the training's memory against the time of a step, by "
                    "estimate; strategy {}, {:.0f} ms\n",
                    title, strategy, milliseconds);
}

std::string BudgetCurve::json() const {
  std::vector<Json> list;
  for (const Point& point : points)
    list.push_back(Json::object({{"budget_bytes", point.budget},
                                 {"need_bytes", point.bytes},
                                 {"steps_again", point.training.again},
                                 {"price", rounded(point.training.price(), 6)},
                                 {"least_price", rounded(point.training.least_price(), 6)}}));
  return Json::object({{"title", title}, {"strategy", strategy}, {"points", Json::list(list)}})
      .text();
}

std::string BudgetCurve::svg() const {
  Curve found{strategy.c_str(), "#2b6cb0", {}}, bound{"bound", "#8a94a3", {}};
  for (const Point& point : points) {
    found.points.push_back({gibibytes(point.budget), percent(point.training.price())});
    bound.points.push_back({gibibytes(point.budget), percent(point.training.least_price())});
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
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<body style=\"font: 14px sans-serif; margin: 2em\">\n{1}<pre>{2}</pre>\n</body></html>\n",
      title, svg(), text());
}

}  // namespace tessera
