#include "tessera/models/training/verify_plan.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/storage.h"
#include "tessera/graph/arena.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// What a run leaves behind, with names: results of each step, then all persistent values.
struct Trace {
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;
  size_t arena_bytes = 0;

  void add(std::string name, const Tensor& tensor) {
    names.push_back(std::move(name));
    values.push_back(tensor.to_vector<float>());
  }
};

// A session for verify_plan() with all its steps; takes no memory until it runs.
class TracedRun {
 public:
  TracedRun(const Config& config, const CompileOptions& options)
      : config_(config),
        image_(loaded_shape(config)),
        session_(config, image_, plain_normalization(image_), options) {
    for (const int64_t count : {config_.data.batch, small()}) session_.train_step(count);
    session_.evaluation_step(small());
  }

  // Its session, its batches, and its values and those that they are compared with.
  int64_t bytes() const {
    int64_t sum = GeneratedBatches::planned_bytes(config_.data.batch, image_);
    for (const HostBuffer& region : session_.regions())
      sum += static_cast<int64_t>(region.name == "persistent" ? 3 * region.bytes : region.bytes);
    return sum;
  }

  Trace run(int64_t steps) {
    session_.bind();
    const GeneratedBatches batches(config_, image_);
    Trace trace;
    for (int64_t i = 0; i < steps; ++i) {
      const bool evaluated = i % 3 == 2;
      const int64_t count = evaluated ? small() : config_.data.batch;
      CompiledStep& step = session_.train_step(count);
      batches.fill(session_, step, i, count);
      step.run();
      trace.add(fmt::format("the loss of step {}", i), step.output(0));
      if (!evaluated) continue;
      CompiledStep& evaluation = session_.evaluation_step(count);
      batches.fill_evaluation(evaluation, i, count);
      evaluation.run();
      trace.add(fmt::format("the loss of the evaluation after step {}", i), evaluation.output(0));
    }
    for (const Tensor& tensor : session_.store().persistent())
      trace.add(tensor.impl()->storage->name, tensor);
    trace.arena_bytes = session_.arena()->bytes();
    return trace;
  }

 private:
  int64_t small() const { return (config_.data.batch + 1) / 2; }

  const Config config_;
  const ImageShape image_;
  Session session_;
};

// A way to run the same steps.
struct Way {
  const char* name;
  Config config;
  CompileOptions options;
};

void require_way_fits(const Way& way) {
  if (!way.config.memory.limit) return;
  const int64_t limit = way.config.memory.limit->bytes,
                bytes = TracedRun(way.config, way.options).bytes();
  if (bytes <= limit) return;
  throw PlanInfeasible(
      fmt::format("memory.limit: --verify-plan also runs the steps {}, which needs {} ({} bytes), "
                  "the limit is {}, over by {}; the training itself fits. Leave out --verify-plan, "
                  "or verify with a smaller data.batch or without memory.limit",
                  way.name, byte_text(bytes), bytes, byte_text(limit), byte_text(bytes - limit)));
}

void require_same(const Trace& a, const Trace& b, const Way& way) {
  for (size_t i = 0; i < a.values.size(); ++i)
    if (std::memcmp(a.values[i].data(), b.values[i].data(), a.values[i].size() * sizeof(float)))
      throw InternalError(
          fmt::format("verify-plan: {} is not the same {} (planner {}) and without a plan",
                      a.names[i], way.name, way.config.memory.planner));
}

}  // namespace

VerifyResult verify_plan(const Config& config, int64_t steps) {
  require_fit(config);
  Config planned = config, unplanned = config;
  planned.mode = unplanned.mode = "graph";
  unplanned.memory.planner = "none";
  CompileOptions replayed, watched;
  replayed.replay_plan = true;
  watched.verify_plan = true;
  const Way without{"without a plan", unplanned, {}};
  const Way real{"with the plan as it is", planned, replayed};
  const Way guarded{"with red zones in the plan", planned, watched};
  for (const Way* way : {&without, &real, &guarded}) require_way_fits(*way);
  const Trace expected = TracedRun(without.config, without.options).run(steps);
  VerifyResult result{steps, 0, 0, expected.arena_bytes};
  for (const auto& [way, bytes] :
       {std::pair(&real, &result.plan_bytes), {&guarded, &result.arena_bytes}}) {
    const Trace trace = TracedRun(way->config, way->options).run(steps);
    require_same(trace, expected, *way);
    *bytes = trace.arena_bytes;
  }
  return result;
}

}  // namespace tessera
