#include "tessera/models/training/memory_budget.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/arena_budget.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/memory/plan.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/profile_costs.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

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

int64_t available_memory(int64_t used) {
  static const int64_t at_first = host_memory().free;
  return std::min(at_first, used + host_memory().free);
}

int64_t budget_bytes(const Run& run) {
  const ByteSize& budget = *run.config().memory.budget;
  if (!budget.is_automatic()) return budget.bytes;
  if (run.device().is_cpu()) return available_memory();
  RawMemory& memory = context(run.device()).memory();
  const size_t free = memory.available();
  if (free == RawMemory::kNoLimit) return INT64_MAX;
  return static_cast<int64_t>(free + memory.statistics().live_bytes);
}

std::unique_ptr<Session> session_within_budget(const Run& run) {
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
