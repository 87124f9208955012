#include "tessera/models/study/algorithm_times.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/study/algorithm_run.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

constexpr double kMiB = 1 << 20;

double us_of(AlgorithmRun& run) {
  const auto begin = std::chrono::steady_clock::now();
  run.run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The one that the program runs first.
std::vector<Algorithm> in_order(std::vector<Algorithm> all, const std::string& chosen) {
  const auto first = std::find_if(all.begin(), all.end(),
                                  [&](const Algorithm& one) { return one.name == chosen; });
  std::rotate(all.begin(), first, first == all.end() ? first : first + 1);
  return all;
}

std::vector<AlgorithmTime> timed(const Op& op, const Specs& in, const std::vector<Algorithm>& all,
                                 int64_t rounds) {
  std::vector<AlgorithmRun> runs;
  std::vector<std::vector<double>> us(all.size());
  for (const Algorithm& one : all) runs.emplace_back(op, in, one).run();
  for (int64_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < runs.size(); ++i) us[i].push_back(us_of(runs[i]));
  std::vector<AlgorithmTime> times;
  for (size_t i = 0; i < all.size(); ++i)
    times.push_back({std::string(all[i].name), static_cast<int64_t>(all[i].scratch_bytes),
                     spread_of(us[i]).median});
  return times;
}

// Milliseconds for each MiB of scratch that this one needs less than the one that runs.
std::optional<double> price(const AlgorithmTime& one, const AlgorithmTime& running) {
  if (one.scratch_bytes >= running.scratch_bytes) return std::nullopt;
  return (one.us - running.us) / 1000 /
         (static_cast<double>(running.scratch_bytes - one.scratch_bytes) / kMiB);
}

Json algorithm_json(const AlgorithmTime& one, const AlgorithmTime& running) {
  const std::optional<double> ms = price(one, running);
  return Json::object({{"name", one.name},
                       {"scratch_bytes", one.scratch_bytes},
                       {"us", rounded(one.us, 3)},
                       {"ms_per_mib", ms ? Json(rounded(*ms, 4)) : Json()}});
}

}  // namespace

std::string AlgorithmTimes::text() const {
  std::string text = fmt::format("{:>10} {:>12} {:>10}  {:<12} {}\n", "us", "scratch MiB",
                                 "ms per MiB", "algorithm", "step, op, place; shape");
  for (const OpAlgorithms& op : ops)
    for (const AlgorithmTime& one : op.algorithms) {
      const std::optional<double> ms = price(one, op.algorithms.front());
      text += fmt::format("{:>10.1f} {:>12.3f} {:>10}  {:<12}", one.us,
                          static_cast<double>(one.scratch_bytes) / kMiB,
                          ms ? fmt::format("{:.3f}", *ms) : "", one.name);
      if (&one == &op.algorithms.front())
        text += fmt::format(" {} {}; {}{}", op.node, op_title(op.op, op.place), op.shape,
                            op.count > 1 ? fmt::format(", {} times", op.count) : "");
      text += "\n";
    }
  return text +
         "The first of each runs. ms per MiB: what each MiB of scratch that another takes less "
         "costs.\n";
}

std::string AlgorithmTimes::json() const {
  std::vector<Json> all;
  for (const OpAlgorithms& op : ops) {
    std::vector<Json> algorithms;
    for (const AlgorithmTime& one : op.algorithms)
      algorithms.push_back(algorithm_json(one, op.algorithms.front()));
    all.push_back(Json::object({{"step", op.node},
                                {"count", op.count},
                                {"op", op.op},
                                {"place", op.place},
                                {"shape", op.shape},
                                {"algorithms", Json::list(algorithms)}}));
  }
  return Json::object({{"format", "tessera algorithms 1"}, {"ops", Json::list(all)}}).text(1);
}

AlgorithmTimes algorithm_times(const Run& given, int64_t rounds) {
  const SettingsScope settings(given.settings());
  const Run run = run_to_time(given);
  if (!run.device().is_cpu())
    throw ConfigError("profile: --algorithms times those of the CPU; add device=cpu");
  const Program& program = *first_step(run.session(), run.steps()).program();
  const Graph& graph = program.compiled().graph;
  AlgorithmTimes result;
  std::vector<std::pair<const Op*, Specs>> seen;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Specs in = graph.input_specs(node);
    const auto all = node.op->algorithms(in, cpu_context().target());
    if (program.compiled().algorithms[n].empty() || all.size() < 2) continue;
    const auto twin = std::find_if(seen.begin(), seen.end(), [&](const auto& other) {
      return other.first->same(*node.op) && other.second == in;
    });
    if (twin != seen.end()) {
      ++result.ops[static_cast<size_t>(twin - seen.begin())].count;
      continue;
    }
    seen.emplace_back(node.op.get(), in);
    const ProfiledOp described = describe_op(program, n);
    result.ops.push_back(
        {.node = n,
         .op = described.op,
         .place = described.place,
         .shape = described.shape,
         .algorithms =
             timed(*node.op, in, in_order(all, program.compiled().algorithms[n]), rounds)});
  }
  return result;
}

}  // namespace tessera
