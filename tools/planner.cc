// planner: memory planning on its own, over CSV files (memory/plan_csv.h).
//
// Exit codes: 0 done, 1 standard output cannot be written, 2 usage or input, 4 proved infeasible or
// above --max-bytes, 7 no plan found within the capacity.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/planner_library.h"
#include "tessera/tools/output.h"
#include "tessera/tools/planner_commands.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Plans memory: assigns an offset to each buffer, given its lifetime. Files are CSV with the "
      "columns id,lower,upper,size and optionally alignment,hint,gaps,offset.");
  app.name("planner");
  app.require_subcommand(1);
  app.set_version_flag("--version", "planner of Tessera " TESSERA_VERSION);
  app.fallthrough();
  tessera::add_library(app, "--planner-lib",
                       "a shared library with an additional planner (memory/planner_library.h)",
                       tessera::load_planner);
  tessera::Command command;
  tessera::add_solve_commands(app, command);
  tessera::add_bench_commands(app, command);
  tessera::add_look_commands(app, command);
  tessera::add_make_commands(app, command);
  tessera::add_recompute_command(app, command);
  if (argc > 1 && argv[1][0] != '-') tessera::require_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
      tessera::require_known_options(app, {argv + 1, argv + argc});
    return tessera::print_exit(app, error) == 0 ? 0 : tessera::kUsage;
  }
  return command();
}

}  // namespace

int main(int argc, char** argv) {
  tessera::begin_program();
  try {
    return tessera::end_program("planner", run(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "planner: {}\n", error.what());
    return tessera::kUsage;
  }
}
