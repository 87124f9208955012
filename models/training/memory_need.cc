#include "tessera/models/training/memory_need.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/arena_budget.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/run/profile_costs.h"
#include "tessera/models/run/weights.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// Reports the lower bound of the step with the largest arena, and names that step if it is not the
// first.
void bound_arena(PlanReport& report, Session& session, const RunSteps& steps) {
  int64_t most = report.plan.bytes;
  const auto look = [&](CompiledStep& step, const char* kind, int64_t images) {
    const Program& program = *step.program();
    if (program.compiled().plan().bytes <= most) return;
    most = program.compiled().plan().bytes;
    report.lower_bound = lower_bound(program.compiled().problem());
    report.arena_of = fmt::format("{} of {} images", kind, images);
  };
  for (const int64_t count : steps.train) look(session.train_step(count), "training", count);
  for (const int64_t count : steps.evaluation)
    look(session.evaluation_step(count), "evaluation", count);
}

// Returns the need that the budget applies to. Timing and verification use the need of the
// training, so their step gets the arena that loaders, data and checkpoints leave to it.
MemoryNeed need_that_counts(Session& session, const Run& run) {
  if (run.purpose() == Purpose::training || run.purpose() == Purpose::evaluation)
    return memory_need(session, run);
  return memory_need(
      run.as(Purpose::training).with([](Config& config) { config.memory.budget.reset(); }));
}

// Returns the largest of the minimal arenas of all steps of a run. A step that fits a budget also
// fits a larger one.
int64_t min_arena(const Run& run, int64_t of_first) {
  CompileOptions options = run.options();
  for (options.arena_budget = of_first;;) try {
      run.make_session(options);
      return options.arena_budget;
    } catch (const BudgetTooSmall& error) {
      options.arena_budget = error.minimum();
    }
}

// Raises `least` by the bytes that its own text adds to checkpoints, which hold the configuration.
int64_t with_its_own_text(const Run& run, const Tensors& persistent, int64_t least) {
  if (!run.device().is_cpu()) return least;
  const int64_t now = total_bytes(other_blocks(run, persistent));
  int64_t budget = least;
  for (int i = 0; i < 4; ++i) {  // until its length no longer changes
    const Run told = run.with([&](Config& c) { c.memory.budget = ByteSize{budget}; });
    budget = least + total_bytes(other_blocks(told, persistent)) - now;
  }
  return budget;
}

}  // namespace

MemoryNeed memory_need(Session& session, const Run& run) {
  const RunSteps steps = run.steps();
  MemoryNeed need{session.regions(), session.gpu_regions(),
                  plan_report(*first_step(session, steps).compiled_graph()),
                  run.data_need().complete || run.purpose() == Purpose::timing};
  need.report.arena = static_cast<int64_t>(session.arena_bytes());
  bound_arena(need.report, session, steps);
  const ParameterCount parameters = parameter_count(run);
  need.report.trainable = parameters.trainable;
  need.report.frozen = parameters.frozen;
  for (MemoryItem& block : other_blocks(run, session.store().persistent()))
    need.blocks.push_back(std::move(block));
  return need;
}

MemoryNeed memory_need(const Run& run) {
  if (run.config().mode == Mode::kEager)
    return memory_need(run.with([](Config& config) { config.mode = Mode::kGraph; }));
  return memory_need(run.session(), run);
}

CompiledStep& first_step(Session& session, const RunSteps& steps) {
  return steps.train.empty() ? session.evaluation_step(steps.evaluation.front())
                             : session.train_step(steps.train.front());
}

std::vector<MemoryItem> loader_blocks(const Run& run, Device device) {
  const DataNeed& data = run.data_need();
  const ImageShape read = run.read_image();
  const auto bytes = [&](int64_t images, bool training) {
    const LoaderOptions options =
        training ? run.training_loader(device) : loader_options(run.config(), false, device);
    return static_cast<size_t>(
        Loader::planned_bytes(read, images > 0 ? images : options.batch, options));
  };
  const MemoryItem evaluation{"loader of evaluation", bytes(data.test_count, false)};
  if (run.purpose() != Purpose::training) return {evaluation};
  std::vector<MemoryItem> blocks{{"loader of training", bytes(data.train_count, true)}, evaluation};
  if (run.config().data.validation.any())
    blocks.push_back({"loader of validation", bytes(data.validation_count, false)});
  return blocks;
}

std::vector<MemoryItem> other_blocks(const Run& run, const Tensors& persistent) {
  if (run.purpose() == Purpose::timing || run.purpose() == Purpose::verification) {
    const int64_t bytes = GeneratedBatches::planned_bytes(run.config().data.batch, run.image());
    return {{"generated batches", static_cast<size_t>(bytes)}};
  }
  std::vector<MemoryItem> blocks = loader_blocks(run, persistent.at(0).device());
  if (const int64_t bytes = run.data_need().bytes; bytes > 0)
    blocks.push_back({"data set", static_cast<size_t>(bytes)});
  if (const size_t copied = weights_copy_bytes(persistent); copied > 0)
    blocks.push_back({"weights", copied});
  if (run.purpose() == Purpose::training)
    for (MemoryItem& block : Checkpointing::planned_buffers(run.config(), persistent))
      blocks.push_back(std::move(block));
  return blocks;
}

int64_t available_memory(int64_t used) {
  static const int64_t at_first = host_memory().free;
  return std::min(at_first, used + host_memory().free);
}

std::optional<int64_t> available_gpu_memory(Device gpu) {
  RawMemory& memory = context(gpu).memory();
  const size_t free = memory.available();
  if (free == RawMemory::kNoLimit) return {};
  return static_cast<int64_t>(free + memory.statistics().live_bytes);
}

int64_t budget_bytes(const Run& run) {
  const ByteSize& budget = *run.config().memory.budget;
  if (!budget.is_automatic()) return budget.bytes;
  if (run.device().is_cpu()) return available_memory();
  return available_gpu_memory(run.device()).value_or(INT64_MAX);
}

std::unique_ptr<Session> prepared_session(const Run& run) {
  if (!run.config().memory.budget || run.config().mode == Mode::kEager)
    return run.make_session(run.options());
  CompileOptions within = run.options();
  within.dump_after.clear();  // dump only the graph that will run
  std::unique_ptr<Session> session = run.make_session(within);
  const MemoryNeed need = need_that_counts(*session, run);
  const int64_t budget = budget_bytes(run),
                needed = run.device().is_cpu() ? need.bytes() : need.gpu_bytes();
  within.dump_after = run.options().dump_after;
  if (needed <= budget)
    return within.dump_after.empty() ? std::move(session) : run.make_session(within);
  const Tensors persistent = session->store().persistent();
  session.reset();
  const int64_t rest = needed - need.report.arena;
  within.arena_budget = std::max<int64_t>(budget - rest, 0);
  try {
    return run.make_session(within);
  } catch (const BudgetTooSmall& error) {
    const int64_t least =
        with_its_own_text(run, persistent, rest + min_arena(run, error.minimum()));
    throw PlanInfeasible(fmt::format(
        "memory.budget: this {} needs at least {} ({} bytes) even with recomputation, and {} "
        "without; the budget is {}; set memory.budget={}\n{}",
        purpose_name(run.purpose()), byte_text(least), least, byte_text(needed), byte_text(budget),
        exact_byte_text(least), error.what()));
  }
}

std::string budget_text(const Config& config, const BudgetRecord& record) {
  if (!config.memory.budget) return "";
  return fmt::format("{} (memory.budget): {}", config.memory.budget->text(), record.text());
}

BudgetTrade::BudgetTrade(const Run& training, std::optional<ByteSize> budget)
    : run_(training.with([](Config& c) { c.memory.budget.reset(), c.mode = Mode::kGraph; })),
      costs_(make_cost_model(config().memory.cost_model)),
      arena_(arena_of(*first_step(run_.session(), run_.steps()).compiled_graph())) {
  Session& session = run_.session();
  const MemoryNeed need =
      memory_need(session, run_.with([&](Config& c) { c.memory.budget = budget; }));
  rest_ = (session.device().is_cpu() ? need.bytes() : need.gpu_bytes()) - need.report.arena;
  floor_ = arena_->lowest().arena;
  const RunSteps steps = run_.steps();
  for (const int64_t count : steps.train) raise_floor(*session.train_step(count).compiled_graph());
  for (const int64_t count : steps.evaluation)
    raise_floor(*session.evaluation_step(count).compiled_graph());
}

BudgetTrade::~BudgetTrade() = default;

std::unique_ptr<ArenaBudget> BudgetTrade::arena_of(const CompiledGraph& compiled) const {
  const MemoryConfig& memory = config().memory;
  return std::make_unique<ArenaBudget>(compiled.graph, compiled.scratch_bytes, compiled.device(),
                                       true, *find_planner(memory.planner),
                                       *find_recompute_strategy(memory.recompute), *costs_);
}

// A step that fits without recomputation sets no floor.
void BudgetTrade::raise_floor(const CompiledGraph& compiled) {
  if (static_cast<int64_t>(compiled.arena_bytes()) > floor_)
    floor_ = std::max(floor_, arena_of(compiled)->lowest().arena);
}

int64_t min_budget(const Run& training, double slowdown) {
  const std::optional<ByteSize>& budget = training.config().memory.budget;
  BudgetTrade trade(training, budget ? budget : BudgetTrade::kLongest);
  const double extra = slowdown * static_cast<double>(trade.arena().plain().cost);
  const int64_t arena =
      trade.arena().lowest(extra < 1e18 ? static_cast<int64_t>(extra) : INT64_MAX).arena;
  return trade.rest() + std::max(arena, trade.floor());
}

}  // namespace tessera
