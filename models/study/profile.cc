#include "tessera/models/study/profile.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/profile_costs.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/step_probe.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

class Stopwatch {
 public:
  double now() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  }

 private:
  const Clock::time_point start_ = Clock::now();
};

// The spans of a program's nodes, step after step; room for all is taken at once.
class NodeTimes final : public NodeObserver {
 public:
  NodeTimes(const Stopwatch& watch, size_t nodes, int64_t steps)
      : watch_(watch), nodes_(nodes), spans_(nodes * static_cast<size_t>(steps)) {}
  void start_step(int64_t step) { first_ = static_cast<size_t>(step) * nodes_; }
  void begin(size_t node) override { spans_[first_ + node].begin = watch_.now(); }
  void end(size_t node) override { spans_[first_ + node].end = watch_.now(); }
  const TimeSpan& span(int64_t step, size_t node) const {
    return spans_[static_cast<size_t>(step) * nodes_ + node];
  }

 private:
  const Stopwatch& watch_;
  const size_t nodes_;
  size_t first_ = 0;
  std::vector<TimeSpan> spans_;
};

std::string shapes_text(const Graph& graph, const std::vector<ValueId>& values) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kShown); ++i)
    text += (i == 0 ? "" : " ") + graph.values[values[i]].spec.shape.text();
  if (values.size() > kShown) text += fmt::format(" and {} more", values.size() - kShown);
  return text;
}

Spread milliseconds(const std::vector<TimeSpan>& spans) {
  std::vector<double> values;
  for (const TimeSpan& span : spans) values.push_back((span.end - span.begin) / 1000);
  return spread_of(values);
}

void add_ops(Profile& profile, const Program& program, const NodeTimes& times) {
  std::vector<size_t> nodes;
  for (size_t n = 0; n < program.compiled().graph.nodes.size(); ++n)
    if (!program.compiled().algorithms[n].empty()) nodes.push_back(n);  // views run nothing
  std::vector<double> sums(static_cast<size_t>(profile.steps)), values;
  for (const size_t n : nodes) {
    profile.ops.push_back(describe_op(program, n));
    values.clear();
    for (int64_t step = 0; step < profile.steps; ++step) {
      const TimeSpan& span = times.span(step, n);
      values.push_back(span.end - span.begin);
      sums[static_cast<size_t>(step)] += values.back() / 1000;
    }
    profile.ops.back().us = spread_of(values);
  }
  profile.ops_ms = spread_of(sums);
  for (int64_t step = 0; step < profile.steps; ++step)
    for (const size_t n : nodes) profile.op_times.push_back(times.span(step, n));
}

void time_steps(Profile& profile, const Run& timed, int64_t warmup) {
  Session& session = timed.session();
  CompiledStep& step = session.train_step(profile.batch);
  const GeneratedBatches batches(timed.config(), session);
  Program& program = *step.program();
  const Stopwatch watch;
  NodeTimes times(watch, program.compiled().graph.nodes.size(), profile.steps);
  int64_t index = 0;
  profile.plain_steps.reserve(static_cast<size_t>(profile.steps));
  profile.observed_steps.reserve(static_cast<size_t>(profile.steps));
  const auto run = [&] {
    const StepProbe probe;
    const double begin = watch.now();
    batches.fill(session, step, index++, profile.batch);
    step.submit();
    step.collect();
    return TimeSpan{begin, watch.now()};
  };
  constexpr double kWarm = 200'000;  // microseconds, for clocks and caches where steps are short
  for (int64_t i = 0; i < warmup || (warmup > 0 && watch.now() < kWarm); ++i) run();
  for (int64_t i = 0; i < profile.steps; ++i) {
    profile.plain_steps.push_back(run());
    times.start_step(i);
    program.observe(&times);
    profile.observed_steps.push_back(run());
    program.observe(nullptr);
  }
  profile.step_ms = milliseconds(profile.plain_steps);
  profile.observed_ms = milliseconds(profile.observed_steps);
  add_ops(profile, program, times);
  profile.costs = timed.config().memory.costs;
  const auto costs = costs_named(profile.costs);
  for (const ProfiledOp& op : profile.ops)
    profile.estimate_ms += static_cast<double>(costs->nanoseconds(
                               program.compiled().graph, program.compiled().graph.nodes[op.node])) /
                           1e6;
}

}  // namespace

Spread spread_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const double median = (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
  return {values.front(), median, values.back()};
}

Run run_to_time(const Run& given, const CompileOptions& compile) {
  if (given.config().mode == Mode::kEager)
    throw ConfigError(
        "profile: mode: eager has no graph whose ops could be timed one by one; add mode=graph");
  Run run = given.as(Purpose::timing, DataNeed(), compile);
  require_fit(run);
  return run;
}

ProfiledOp describe_op(const Program& program, size_t n) {
  const Graph& graph = program.compiled().graph;
  const Node& node = graph.nodes[n];
  return {.node = n,
          .op = std::string(node.op->name()) + (node.again ? " again" : ""),
          .place = place_of(graph, node),
          .phase = phase_name(node.phase),
          .algorithm = program.compiled().algorithms[n],
          .shape = shapes_text(graph, node.inputs) + " -> " + shapes_text(graph, node.outputs),
          .cost = node.op->cost(graph.input_specs(node)),
          .us = {}};
}

std::string op_title(const std::string& op, const std::string& place) {
  return place.empty() ? op : op + " " + place;
}

double Profile::ops_us() const {
  double sum = 0;
  for (const ProfiledOp& op : ops) sum += op.us.median;
  return sum;
}

Profile profile(const Run& given, const ProfileOptions& options) {
  const SettingsScope settings(given.settings());
  // An op's time is its own only when it is waited for.
  const Run run = run_to_time(given.with([](Config& config) { config.gpu.synchronous = true; }),
                              options.compile);
  Profile profile{.device = run.device().name(),
                  .kernels = cpu_context().kernels_name(),
                  .isa = isa_name(current_isa()),
                  .threads = cpu_context().threads(),
                  .batch = run.config().data.batch,
                  .steps = options.steps};
  if (run.device().is_cpu()) profile.peaks = measure_peaks(cpu_context().pool());
  run.session().bind();
  time_steps(profile, run, options.warmup);
  return profile;
}

}  // namespace tessera
