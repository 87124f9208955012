#include "tessera/models/training/memory_budget.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/arena_budget.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// What is timed and what is verified is the step of the training: its arena has what the training
// leaves it, with loaders, data and checkpoints.
MemoryNeed need_that_counts(Session& session, const Config& config, const DataNeed& data,
                            Purpose purpose) {
  if (purpose == Purpose::training || purpose == Purpose::evaluation)
    return memory_need(session, config, data, purpose);
  Config without = config;
  without.memory.budget.reset();
  return memory_need(without);
}

// What all steps need that are made for a run, the largest of their least arenas: a step that fits
// a budget fits a larger one.
int64_t least_arena(const MakeSession& make, CompileOptions options, int64_t of_first) {
  for (options.arena_budget = of_first;;) try {
      make(options);
      return options.arena_budget;
    } catch (const BudgetTooSmall& error) {
      options.arena_budget = error.minimum();
    }
}

}  // namespace

int64_t budget_bytes(const Config& config, Device device) {
  if (!config.memory.budget->is_automatic()) return config.memory.budget->bytes;
  if (device.is_cpu()) return machine_room();
  RawMemory& memory = context(device).memory();
  const size_t free = memory.available();
  if (free == RawMemory::kNoLimit) return INT64_MAX;
  return static_cast<int64_t>(free + memory.statistics().live_bytes);
}

std::unique_ptr<Session> session_within_budget(const Config& config, const DataNeed& data,
                                               Purpose purpose, const CompileOptions& options,
                                               const MakeSession& make) {
  CompileOptions within = options;
  within.dump_after.clear();  // of the graph that will run
  std::unique_ptr<Session> session = make(within);
  const bool on_gpu = !session->device().is_cpu();
  const MemoryNeed need = need_that_counts(*session, config, data, purpose);
  const int64_t budget = budget_bytes(config, session->device()),
                needed = on_gpu ? need.gpu_bytes() : need.bytes();
  if (needed <= budget) return options.dump_after.empty() ? std::move(session) : make(options);
  session.reset();
  const int64_t rest = needed - need.report.arena;
  within.dump_after = options.dump_after;
  within.arena_budget = std::max<int64_t>(budget - rest, 0);
  try {
    return make(within);
  } catch (const BudgetTooSmall& error) {
    const int64_t least = rest + least_arena(make, options, error.minimum());
    throw PlanInfeasible(fmt::format(
        "memory.budget: this {} needs at least {} ({} bytes), whatever is computed again, and {} "
        "without that; the budget is {}; write memory.budget={}\n{}",
        purpose_name(purpose), byte_text(least), least, byte_text(needed), byte_text(budget),
        exact_byte_text(least), error.what()));
  }
}

std::string budget_text(const Config& config, const BudgetRecord& record) {
  if (!config.memory.budget) return "";
  return fmt::format("{} (memory.budget): {}", config.memory.budget->text(), record.text());
}

}  // namespace tessera
