// The command families of planner, each in a file planner_<family>.cc, and their shared helpers.
#pragma once

#include <string>
#include <string_view>

#include "tessera/memory/plan.h"
#include "tessera/tools/command_line.h"

namespace tessera {

// Exit codes in addition to 0 (success) and 1 (standard output cannot be written).
constexpr int kUsage = 2;       // usage, or bad input
constexpr int kInfeasible = 4;  // no plan fits, or a limit of the user is exceeded
constexpr int kUnknown = 7;     // no plan found that fits the capacity, none proved impossible

void add_solve_commands(CLI::App& app, Command& command);  // solve, check
void add_look_commands(CLI::App& app, Command& command);   // draw, why
void add_bench_commands(CLI::App& app, Command& command);  // compare, bench, list
void add_make_commands(CLI::App& app, Command& command);   // random, export
void add_recompute_command(CLI::App& app, Command& command);

// Throws ConfigError, with the list of planners, for an unknown name.
const Planner& planner_named(const std::string& name);

// Solves a problem and checks the plan before it is used; throws DataError if the plan is wrong.
Solution prove_checked(const Planner& planner, const Problem& problem, const Limits& limits = {});
bool placed(SolveStatus status);

// has_plan(): all buffers of the file have offsets. take_plan(): moves the offsets out of the
// problem into a plan; throws DataError if one is missing.
bool has_plan(const Problem& problem);
Plan take_plan(Problem& problem, const std::string& file);

// Prints to stderr the buffers that cannot be placed together.
void print_conflict(const Problem& problem, const Solution& solution);

// Returns bytes / bound; 1 if the bound is 0.
double ratio(int64_t bytes, int64_t bound);
// Returns "lowest", "infeasible", "not found" or "within 1.50 %", rounded up.
std::string proof_of(const Solution& solution);

}  // namespace tessera
