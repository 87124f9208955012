// memory.budget: what a training would need above it is saved in the arenas of its steps, by
// computing some of what they make again instead of keeping it. The bits are the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/models/training/run_steps.h"

namespace tessera {

struct BudgetRecord;  // graph/plan_report.h

// A session of the configuration, its steps prepared, with these options.
using MakeSession = std::function<std::unique_ptr<Session>(const CompileOptions& options)>;

// The session that `make` makes within memory.budget: where what is asked for with it is more, by
// memory_need(), one whose arenas have what is left of the budget (CompileOptions::arena_budget).
// Throws PlanInfeasible where that is too little, with the smallest budget that would do.
std::unique_ptr<Session> session_within_budget(const Config& config, const DataNeed& data,
                                               Purpose purpose, const CompileOptions& options,
                                               const MakeSession& make);

// Returns memory.budget in bytes, of the memory that steps on `device` run in.
int64_t budget_bytes(const Config& config, Device device);

// "512MiB (memory.budget): 31 steps run again, 1.9 % of a step by estimate (at least 1.7 %)"; empty
// without a budget.
std::string budget_text(const Config& config, const BudgetRecord& record);

}  // namespace tessera
