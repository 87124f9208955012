#include "tessera/models/study/plan_tuning.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tessera/engine/eager.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/layers/conv2d/cuda/tune.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

struct Use {
  ConvRequest request;
  int times = 0;  // in a training step of the full batch
};

using Uses = std::map<std::string, Use>;  // by what is asked, in words

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

// Of the plans that ran, which are some.
const CachedPlan& fastest(const CachedPlans& plans) {
  const auto time = [](const CachedPlan& plan) {
    return plan.microseconds > 0 ? plan.microseconds : 1e300;
  };
  return *std::min_element(
      plans.begin(), plans.end(),
      [&](const CachedPlan& a, const CachedPlan& b) { return time(a) < time(b); });
}

}  // namespace

Tuning tune_plans(const Run& given, const std::function<void(const std::string&)>& say) {
  const Run run = given.with(
      [](Config& config) { config.mode = Mode::kGraph, config.gpu.plans = GpuPlans::rule; });
  const Config& config = run.config();
  const Device device = run.device();
  if (device.is_cpu()) {
    const std::string why = why_no_gpu();
    throw DeviceError(fmt::format("tune: measures on a GPU, but device: {} comes to {} here{}{}",
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
      const auto ran = static_cast<size_t>(std::count_if(
          plans.begin(), plans.end(), [](const CachedPlan& p) { return p.microseconds > 0; }));
      if (ran == 0) {
        say(fmt::format("{}: no plan of cuDNN", text));
        continue;
      }
      ++tuning.convolutions;
      tuning.plans += ran;
      const CachedPlan &rule = plans.front(), &best = fastest(plans);
      tuning.rule_microseconds += use.times * rule.microseconds;
      tuning.tuned_microseconds += use.times * best.microseconds;
      say(fmt::format("{}: engine {} {:.1f} us, the fastest of {}: engine {} {:.1f} us", text,
                      rule.engine, rule.microseconds, ran, best.engine, best.microseconds));
    }
  }
  return tuning;
}

}  // namespace tessera
