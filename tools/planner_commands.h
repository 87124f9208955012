// Families of planner's commands, each in a file of its own, planner_<family>.cc, and what they
// share.
#pragma once

#include <string>
#include <string_view>

#include "tessera/memory/plan.h"
#include "tessera/tools/command_line.h"

namespace tessera {

// Exit codes beyond 0 (done) and 1 (standard output cannot be written).
constexpr int kUsage = 2;       // or bad input
constexpr int kInfeasible = 4;  // no plan fits, or a limit of the user is passed
constexpr int kUnknown = 7;     // none was found that fits the capacity, none is proved impossible

void add_solve_commands(CLI::App& app, Command& command);  // solve, check
void add_look_commands(CLI::App& app, Command& command);   // draw, why
void add_bench_commands(CLI::App& app, Command& command);  // compare, bench, list
void add_make_commands(CLI::App& app, Command& command);   // random, export
void add_recompute_command(CLI::App& app, Command& command);

// Throws ConfigError naming those there are.
const Planner& planner_named(const std::string& name);

// A planner's plan is checked before anybody builds on it; throws DataError where it is wrong.
Solution prove_checked(const Planner& planner, const Problem& problem, const Limits& limits = {});
bool placed(const Solution& solution);

// The plan that a file holds as its offsets; or, where some are missing, the planner's. The offsets
// of a complete plan are taken out of the problem.
bool has_plan(const Problem& problem);
Plan take_plan(Problem& problem, const std::string& file);

// Tells on stderr which buffers are why there is no plan.
void print_conflict(const Problem& problem, const Solution& solution);

// bytes / bound, 1 where both are 0.
double ratio(int64_t bytes, int64_t bound);
// "lowest", "infeasible", "not found" or "within 1.50 %", rounded up.
std::string proof_of(const Solution& solution);

// Writes the file; "-" or no path is standard output. Throws ConfigError.
void write_output(const std::string& path, std::string_view text);

}  // namespace tessera
