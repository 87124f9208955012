#include "tessera/graph/lower.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/graph/passes/passes.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {
namespace {

struct Pass {
  const char* name;
  int (*run)(Graph&);
};

constexpr Pass kPasses[] = {
    {"simplify", simplify},
    {"dead_code", eliminate_dead_code},
    {"common_subexpressions", eliminate_common_subexpressions},
    {"fold_constants", fold_constants},
    {"fuse_pointwise", fuse_pointwise},
    {"fold_scales", fold_scales},
    {"fuse_epilogues", fuse_epilogues},
    {"fuse_prologues", fuse_prologues},
    {"fuse_consumers", fuse_consumers},
    {"fuse_late_prologues", fuse_late_prologues},
    {"order_updates", order_updates},
    {"pack_constants", pack_constants},
    {"fuse_chains", fuse_chains},
};

void check_names(const CompileOptions& options) {
  const std::vector<std::string> known = pass_names();
  std::vector<std::string> given = options.disabled_passes;
  if (!options.dump_after.empty() && options.dump_after != "capture")
    given.push_back(options.dump_after);
  for (const std::string& name : given)
    if (std::ranges::find(known, name) == known.end())
      throw ConfigError(fmt::format("compile: unknown pass '{}'; the passes are {}", name,
                                    fmt::join(known, ", ")));
}

void verify_after(const Graph& graph, const std::string& pass) {
  std::string fault = verify(graph);
  if (!fault.empty()) throw InternalError(fmt::format("after {}: {}", pass, fault));
}

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : kPasses) names.emplace_back(pass.name);
  names.emplace_back("in_place");
  return names;
}

bool pass_is_on(const CompileOptions& options, const std::string& name) {
  return std::ranges::count(options.disabled_passes, name) == 0;
}

std::vector<PassRecord> lower(Graph& graph, const CompileOptions& options) {
  check_names(options);
  if (options.constant_parameters) freeze_persistent(graph);
  auto dump = [&](const std::string& name) {
    if (options.dump_after == name) fmt::print("{}", graph.text());
  };
  verify_after(graph, "capture");
  dump("capture");
  std::vector<PassRecord> records;
  for (const Pass& pass : kPasses) {
    PassRecord record{pass.name, 0, 0};
    if (pass_is_on(options, pass.name)) {
      auto start = std::chrono::steady_clock::now();
      record.fired = pass.run(graph);
      record.milliseconds = milliseconds_since(start);
      verify_after(graph, pass.name);
    }
    records.push_back(record);
    dump(pass.name);
  }
  if (options.constant_parameters) copy_from_stores(graph);
  return records;
}

}  // namespace tessera
