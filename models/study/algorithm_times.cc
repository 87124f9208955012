#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "tessera/engine/eager.h"
#include "tessera/engine/prepare.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

namespace {

Tensor operand(const TensorSpec& spec, uint64_t seed) {
  const bool is_float = spec.dtype == DType::f32 || spec.dtype == DType::f64;
  return is_float ? random_normal(spec.shape, seed, 0, 1, spec.dtype)
                  : zeros(spec.shape, spec.dtype);
}

constexpr double kMiB = 1 << 20;

// Moves the algorithm that the program runs to the front.
std::vector<Algorithm> in_order(std::vector<Algorithm> all, const std::string& chosen) {
  const auto first = std::ranges::find(all, chosen, &Algorithm::name);
  std::rotate(all.begin(), first, first == all.end() ? first : first + 1);
  return all;
}

std::vector<AlgorithmTime> timed(const Op& op, const Specs& in, const std::vector<Algorithm>& all,
                                 int64_t rounds) {
  std::vector<AlgorithmRun> runs;
  std::vector<std::vector<double>> us(all.size());
  for (const Algorithm& one : all) runs.emplace_back(op, in, one).run();
  for (int64_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < runs.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      runs[i].run();
      us[i].push_back(1000 * milliseconds_since(begin));
    }
  std::vector<AlgorithmTime> times;
  for (size_t i = 0; i < all.size(); ++i)
    times.push_back({std::string(all[i].name), static_cast<int64_t>(all[i].scratch_bytes),
                     spread_of(us[i]).median});
  return times;
}

// Returns the extra milliseconds per MiB of scratch that this algorithm saves over the current one;
// NaN if it saves none.
double price(const AlgorithmTime& one, const AlgorithmTime& running) {
  if (one.scratch_bytes >= running.scratch_bytes) return NAN;
  return (one.us - running.us) / 1000 /
         (static_cast<double>(running.scratch_bytes - one.scratch_bytes) / kMiB);
}

struct Use {
  ConvRequest request;
  int times = 0;  // per training step of the full batch
};

using Uses = std::map<std::string, Use>;  // by the request as text

void add_uses(Uses& uses, CompiledStep& step, int times) {
  const Graph& graph = step.compiled_graph()->graph;
  for (const Node& node : graph.nodes)
    if (const auto request = conv_request(*node.op, graph.input_specs(node)))
      uses.try_emplace(conv_text(*request), Use{*request}).first->second.times += times;
}

[[maybe_unused]] Uses uses_of(const Run& run) {
  const RunSteps steps = run.steps();
  const auto session = prepared_session(run);
  Uses uses;
  for (const int64_t batch : steps.train)
    add_uses(uses, session->train_step(batch), batch == steps.train.front() ? 1 : 0);
  for (const int64_t batch : steps.evaluation) add_uses(uses, session->evaluation_step(batch), 0);
  return uses;
}

// Returns the fastest of the plans that ran. Requires that one did.
[[maybe_unused]] const CachedPlan& fastest(const CachedPlans& plans) {
  const auto time = [](const CachedPlan& plan) {
    return plan.microseconds > 0 ? plan.microseconds : 1e300;
  };
  return *std::ranges::min_element(plans, {}, time);
}

}  // namespace

AlgorithmRun::AlgorithmRun(const Op& op, const Specs& in, const Algorithm& algorithm,
                           const AlgorithmRun* like)
    : kernel_(prepare_kernel(op, in, cpu_context(), algorithm)),
      scratch_(allocate_storage(algorithm.scratch_bytes, Device{}, true)) {
  for (size_t i = 0; i < in.size(); ++i)
    add(like != nullptr ? cast(like->tensors_[i], in[i].dtype) : operand(in[i], i + 1), in_);
  for (const TensorSpec& spec : op.infer(in)) add(empty(spec), out_);
}

void AlgorithmRun::add(const Tensor& tensor, std::vector<Buffer>& to) {
  tensors_.push_back(tensor);
  to.push_back({tensor.impl()->data(), tensor.spec()});
}

Report AlgorithmTimes::report() const {
  Table table({{nullptr, "us"},
               {nullptr, "scratch MiB"},
               {nullptr, "ms per MiB"},
               {nullptr, "algorithm", true},
               {nullptr, "node, op, module; shape", true}});
  Table all({{"node", nullptr},
             {"count", nullptr},
             {"op", nullptr},
             {"module_path", nullptr},
             {"shape", nullptr},
             {"algorithms", nullptr}});
  for (const OpAlgorithms& op : ops) {
    Table algorithms(
        {{"name", nullptr}, {"scratch_bytes", nullptr}, {"us", nullptr}, {"ms_per_mib", nullptr}});
    std::string title =
        fmt::format("{} {}; {}{}", op.node, op_title(op.op, op.module_path), op.shape,
                    op.count > 1 ? fmt::format(", {} times", op.count) : "");
    for (const AlgorithmTime& one : op.algorithms) {
      const Cell us = number(one.us, 1, 3), ms = number(price(one, op.algorithms.front()), 3, 4);
      algorithms.add({one.name, one.scratch_bytes, us, ms});
      table.add({us, number(static_cast<double>(one.scratch_bytes) / kMiB, 3), ms, one.name,
                 std::exchange(title, "")});
    }
    all.add({op.node, op.count, op.op, op.module_path, op.shape, {"", algorithms.json()}});
  }
  Report report;
  report.add("format", "tessera algorithms 2")
      .add("ops", all.json())
      .add(nullptr, "", std::move(table))
      .line(
          "The first algorithm of each op is in use. ms per MiB: the extra time per MiB of scratch "
          "that another algorithm saves.");
  return report;
}

AlgorithmTimes algorithm_times(const Run& given, int64_t rounds) {
  const SettingsScope settings(given.settings());
  const Run run = run_to_time(given);
  if (!run.device().is_cpu())
    throw ConfigError("profile: --algorithms times only CPU algorithms; set device=cpu");
  const Program& program = *first_step(run.session(), run.steps()).program();
  const Graph& graph = program.compiled().graph;
  AlgorithmTimes result;
  std::vector<std::pair<const Op*, Specs>> seen;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Specs in = graph.input_specs(node);
    const auto all = algorithms_of(*node.op, in, cpu_context().target());
    if (program.compiled().algorithms[n].empty() || all.size() < 2) continue;
    const auto twin = std::ranges::find_if(seen, [&](const auto& other) {
      return other.first->is_equivalent(*node.op) && other.second == in;
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
         .module_path = described.module_path,
         .shape = described.shape,
         .algorithms =
             timed(*node.op, in, in_order(all, program.compiled().algorithms[n]), rounds)});
  }
  return result;
}

Tuning tune_plans(const Run& given, const std::function<void(const std::string&)>& print) {
  const Run run = given.with(
      [](Config& config) { config.mode = Mode::kGraph, config.gpu.plans = GpuPlans::heuristic; });
  const Config& config = run.config();
  const Device device = run.device();
  if (device.is_cpu()) {
    const std::string why = why_no_gpu();
    throw DeviceError(fmt::format("tune: requires a GPU, but device: {} selects {} here{}{}",
                                  config.device, device.name(), why.empty() ? "" : ": ", why));
  }
  Tuning tuning;
  if constexpr (kCuda) {
    const Uses uses = uses_of(run);
    AllocatorSettings settings;
    if (config.memory.gpu_limit)
      settings.limit = static_cast<size_t>(config.memory.gpu_limit->bytes);
    const EagerAllocatorScope memory(device, "direct", settings);
    for (const auto& [text, use] : uses) {
      const CachedPlans plans = tune_conv(use.request, as_cuda(context(device)));
      const auto ran = static_cast<size_t>(
          std::ranges::count_if(plans, [](const CachedPlan& p) { return p.microseconds > 0; }));
      if (ran == 0) {
        print(fmt::format("{}: cuDNN has no plan", text));
        continue;
      }
      ++tuning.convolutions;
      tuning.plans += ran;
      const CachedPlan &rule = plans.front(), &best = fastest(plans);
      tuning.heuristic_microseconds += use.times * rule.microseconds;
      tuning.autotuned_microseconds += use.times * best.microseconds;
      print(fmt::format("{}: heuristic: engine {} {:.1f} us; fastest of {}: engine {} {:.1f} us",
                        text, rule.engine, rule.microseconds, ran, best.engine, best.microseconds));
    }
  }
  return tuning;
}

}  // namespace tessera
