// Answers that need no data: the plan of a configuration, what its step asks for without one, how
// fast it runs, and whether its kernels keep to the plan.
#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/storage.h"
#include "tessera/graph/program.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/step_probe.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Normalization plain_normalization(const ImageShape& image) {
  auto channels = static_cast<size_t>(image.channels);
  return {std::vector<float>(channels, 0.5f), std::vector<float>(channels, 0.25f)};
}

ImageShape loaded_shape(const Config& config) {
  return output_shape(make_transforms(config.data), image_shape(config.data));
}

// A few batches of random bytes, so that no step repeats the one before.
class GeneratedBatches {
 public:
  GeneratedBatches(const Config& config, const ImageShape& image)
      : batch_(static_cast<size_t>(config.data.batch)),
        image_bytes_(static_cast<size_t>(image.bytes())),
        lr_(config.optimizer.lr / 10),
        images_(kGeneratedBatches * batch_ * image_bytes_),
        labels_(kGeneratedBatches * batch_) {
    RandomSequence random(config.seed, 0);
    for (uint8_t& pixel : images_) pixel = static_cast<uint8_t>(random.bits());
    for (int32_t& label : labels_)
      label = static_cast<int32_t>(random.below(static_cast<uint64_t>(config.model.classes)));
  }

  // The arguments of training step `index` for `count` images, at most a batch. Allocates nothing.
  void fill(Session& session, CompiledStep& step, int64_t index, int64_t count) const {
    fill_evaluation(step, index, count);
    const size_t first = static_cast<size_t>(index) % kGeneratedBatches * batch_;
    session.set_targets(step, std::span(labels_.data() + first, static_cast<size_t>(count)),
                        nullptr, nullptr);
    Tensor(step.input(2)).assign_scalar(lr_);
    const int64_t position[2] = {index, 0};
    Tensor(step.input(3)).assign(std::span<const int64_t>(position));
  }
  void fill_evaluation(CompiledStep& step, int64_t index, int64_t count) const {
    const size_t first = static_cast<size_t>(index) % kGeneratedBatches * batch_;
    const auto images = static_cast<size_t>(count);
    Tensor(step.input(0))
        .assign(std::span(images_.data() + first * image_bytes_, images * image_bytes_));
    Tensor(step.input(1)).assign(std::span(labels_.data() + first, images));
  }

 private:
  size_t batch_, image_bytes_;
  double lr_;
  std::vector<uint8_t> images_;
  std::vector<int32_t> labels_;
};

}  // namespace

PlanReport plan(const Config& config, const PassSettings& passes) {
  Config graph = config;
  graph.mode = Mode::kGraph;
  ImageShape image = loaded_shape(graph);
  Session session(graph, image, plain_normalization(image), passes);
  const DataNeed data = known_data(graph);
  CompiledStep& train = session.train_step(running_batch(graph, data));
  session.evaluation_step(data.test_count > 0 ? std::min(graph.data.batch, data.test_count)
                                              : graph.data.batch);
  PlanReport report = plan_report(*train.program());
  report.arena = static_cast<int64_t>(session.arena()->bytes());
  const MemoryNeed need = memory_need(graph, data, Purpose::training, passes.disabled_passes);
  for (const HostBuffer& block : need.blocks)
    report.add_part(block.name, static_cast<int64_t>(block.bytes));
  report.parts_complete = need.complete;
  return report;
}

PlanPicture eager_picture(const Config& config, const std::string& title) {
  Config eager = config;
  eager.mode = Mode::kEager;
  eager.data.batch = running_batch(config, known_data(config));
  const ImageShape image = loaded_shape(eager);
  Session session(eager, image, plain_normalization(image));
  CompiledStep& step = session.train_step(eager.data.batch);
  session.bind();
  const GeneratedBatches batches(eager, image);
  const auto run = [&](int64_t index) {
    batches.fill(session, step, index, eager.data.batch);
    step.run();
  };
  run(0);  // fills the allocator's cache, as every step but the first finds it
  const AllocationTrace trace;
  run(1);
  return trace.picture(title);
}

BenchResult bench(const Config& config, int64_t steps) {
  require_fit(config, Purpose::timing);
  ImageShape image = loaded_shape(config);
  int64_t batch = config.data.batch;
  Session session(config, image, plain_normalization(image));
  CompiledStep& step = session.train_step(batch);
  session.bind();

  GeneratedBatches batches(config, image);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(steps));
  BenchResult result;
  for (int64_t i = 0; i < steps; ++i) {
    const StepProbe probe;
    Clock::time_point start = Clock::now();
    batches.fill(session, step, i, batch);
    step.run();
    result.loss = step.output(0).item<double>();
    times.push_back(milliseconds_since(start));
  }
  if (times.empty()) return result;
  result.first_step_ms = times.front();
  if (times.size() > 1) times.erase(times.begin());
  std::sort(times.begin(), times.end());
  result.step_ms_p50 = times[times.size() / 2];
  result.step_ms_p95 = times[times.size() * 95 / 100];
  result.images_per_second = 1000.0 * static_cast<double>(batch) / result.step_ms_p50;
  result.compile_ms = session.compile_milliseconds();
  result.peak_bytes = cpu_memory().statistics().peak_bytes;
  result.threads = cpu_context().threads();
  result.kernels = cpu_context().kernels_name();
  return result;
}

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
  TracedRun(const Config& config, const PassSettings& passes)
      : config_(config),
        image_(loaded_shape(config)),
        session_(config, image_, plain_normalization(image_), passes) {
    for (const int64_t count : {config_.data.batch, small()}) session_.train_step(count);
    session_.evaluation_step(small());
  }

  // Its session, its batches, and its values and those that they are compared with.
  int64_t bytes() const {
    int64_t sum = generated_bytes(config_.data.batch, image_);
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
    for (const Tensor& tensor : session_.store().persistent()) trace.add(tensor.impl()->storage->name, tensor);
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
  PassSettings passes;
};

void require_way_fits(const Way& way) {
  if (!way.config.memory.limit) return;
  const int64_t limit = way.config.memory.limit->bytes,
                bytes = TracedRun(way.config, way.passes).bytes();
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
  planned.mode = unplanned.mode = Mode::kGraph;
  unplanned.memory.planner = "none";
  PassSettings replayed, watched;
  replayed.replay_plan = true;
  watched.verify_plan = true;
  const Way without{"without a plan", unplanned, {}};
  const Way real{"with the plan as it is", planned, replayed};
  const Way guarded{"with red zones in the plan", planned, watched};
  for (const Way* way : {&without, &real, &guarded}) require_way_fits(*way);
  const Trace expected = TracedRun(without.config, without.passes).run(steps);
  VerifyResult result{steps, 0, 0, expected.arena_bytes};
  for (const auto& [way, bytes] :
       {std::pair(&real, &result.plan_bytes), {&guarded, &result.arena_bytes}}) {
    const Trace trace = TracedRun(way->config, way->passes).run(steps);
    require_same(trace, expected, *way);
    *bytes = trace.arena_bytes;
  }
  return result;
}

std::string BenchResult::json() const {
  return Json::object({{"images_per_second", rounded(images_per_second, 2)},
                       {"step_ms_p50", rounded(step_ms_p50, 4)},
                       {"step_ms_p95", rounded(step_ms_p95, 4)},
                       {"first_step_ms", rounded(first_step_ms, 4)},
                       {"compile_ms", rounded(compile_ms, 4)},
                       {"loss", rounded(loss, 6)},
                       {"peak_bytes", peak_bytes},
                       {"threads", threads},
                       {"kernels", kernels}})
      .text();
}

}  // namespace tessera
