// Answers that need no data: the plan of a configuration, what its step asks for without one, how
// fast it runs, and whether its kernels keep to the plan.
#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "tessera/engine/memory_recording.h"
#include "tessera/engine/storage.h"
#include "tessera/graph/program.h"
#include "tessera/models/config_data.h"
#include "tessera/models/session.h"
#include "tessera/models/step_probe.h"
#include "tessera/models/trainer.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"

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
  return output_shape(make_augment(config.data), image_shape(config.data));
}

// A few batches of random bytes, so that no step repeats the one before.
class GeneratedBatches {
 public:
  GeneratedBatches(const Config& config, const ImageShape& image)
      : batch_(static_cast<size_t>(config.data.batch)),
        image_bytes_(static_cast<size_t>(image.bytes())),
        lr_(config.optimizer.lr / 10),
        images_(kBatches * batch_ * image_bytes_),
        labels_(kBatches * batch_) {
    RandomSequence random(config.seed, 0);
    for (uint8_t& pixel : images_) pixel = static_cast<uint8_t>(random.bits());
    for (int32_t& label : labels_)
      label = static_cast<int32_t>(random.below(static_cast<uint64_t>(config.model.classes)));
  }

  // The arguments of training step `index` for `count` images, at most a batch. Allocates nothing.
  void fill(Session& session, PreparedStep& step, int64_t index, int64_t count) const {
    fill_evaluation(step, index, count);
    const size_t first = static_cast<size_t>(index) % kBatches * batch_;
    session.set_targets(step, std::span(labels_.data() + first, static_cast<size_t>(count)),
                        nullptr, nullptr);
    Tensor(step.input(2)).assign_scalar(lr_);
    const int64_t position[2] = {index, 0};
    Tensor(step.input(3)).assign(std::span<const int64_t>(position));
  }
  void fill_evaluation(PreparedStep& step, int64_t index, int64_t count) const {
    const size_t first = static_cast<size_t>(index) % kBatches * batch_;
    const auto images = static_cast<size_t>(count);
    Tensor(step.input(0))
        .assign(std::span(images_.data() + first * image_bytes_, images * image_bytes_));
    Tensor(step.input(1)).assign(std::span(labels_.data() + first, images));
  }

 private:
  static constexpr size_t kBatches = 4;
  size_t batch_, image_bytes_;
  double lr_;
  std::vector<uint8_t> images_;
  std::vector<int32_t> labels_;
};

}  // namespace

PlanReport plan(const Config& config, const PassSettings& passes) {
  Config graph = config;
  graph.mode = "graph";
  ImageShape image = loaded_shape(graph);
  Session session(graph, image, plain_normalization(image), passes);
  PreparedStep& train = session.train_step(graph.data.batch);
  session.evaluation_step(graph.data.batch);
  PlanReport report = plan_report(*train.program());
  report.arena = static_cast<int64_t>(session.arena()->bytes());
  return report;
}

PlanPicture eager_picture(const Config& config, const std::string& title) {
  Config eager = config;
  eager.mode = "eager";
  const ImageShape image = loaded_shape(eager);
  Session session(eager, image, plain_normalization(image));
  PreparedStep& step = session.train_step(eager.data.batch);
  session.bind();
  const GeneratedBatches batches(eager, image);
  const auto run = [&](int64_t index) {
    batches.fill(session, step, index, eager.data.batch);
    step.run();
  };
  run(0);  // fills the allocator's cache, as every step but the first finds it
  const MemoryRecording recording;
  run(1);
  return recording.picture(title);
}

BenchResult bench(const Config& config, int64_t steps) {
  ImageShape image = loaded_shape(config);
  int64_t batch = config.data.batch;
  Session session(config, image, plain_normalization(image));
  PreparedStep& step = session.train_step(batch);
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
  result.threads = cpu_context().pool().size();
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

Trace run_traced(const Config& config, int64_t steps, const PassSettings& passes) {
  ImageShape image = loaded_shape(config);
  Session session(config, image, plain_normalization(image), passes);
  GeneratedBatches batches(config, image);
  Trace trace;
  for (int64_t i = 0; i < steps; ++i) {
    const bool small = i % 3 == 2;
    const int64_t count = small ? (config.data.batch + 1) / 2 : config.data.batch;
    PreparedStep& step = session.train_step(count);
    batches.fill(session, step, i, count);
    step.run();
    trace.add(fmt::format("the loss of step {}", i), step.output(0));
    if (!small) continue;
    PreparedStep& evaluation = session.evaluation_step(count);
    batches.fill_evaluation(evaluation, i, count);
    evaluation.run();
    trace.add(fmt::format("the loss of the evaluation after step {}", i), evaluation.output(0));
  }
  for (const Tensors* list : {&session.store().parameters(), &session.store().states()})
    for (const Tensor& tensor : *list) trace.add(tensor.impl()->storage->name, tensor);
  trace.arena_bytes = session.arena()->bytes();
  return trace;
}

}  // namespace

VerifyResult verify_plan(const Config& config, int64_t steps) {
  Config planned = config, unplanned = config;
  planned.mode = unplanned.mode = "graph";
  unplanned.memory.planner = "none";
  PassSettings watched;
  watched.verify_plan = true;
  const Trace a = run_traced(planned, steps, watched), b = run_traced(unplanned, steps, {});
  for (size_t i = 0; i < a.values.size(); ++i)
    if (std::memcmp(a.values[i].data(), b.values[i].data(), a.values[i].size() * sizeof(float)))
      throw InternalError(
          fmt::format("verify-plan: {} is not the same with planner {} and without "
                      "a plan",
                      a.names[i], planned.memory.planner));
  return {steps, a.arena_bytes, b.arena_bytes};
}

std::string BenchResult::json() const {
  return fmt::format(
      "{{\"images_per_second\": {:.2f}, \"step_ms_p50\": {:.4f}, \"step_ms_p95\": {:.4f}, "
      "\"first_step_ms\": {:.4f}, \"compile_ms\": {:.4f}, \"loss\": {:.6f}, \"peak_bytes\": {}, "
      "\"threads\": {}}}",
      images_per_second, step_ms_p50, step_ms_p95, first_step_ms, compile_ms, loss, peak_bytes,
      threads);
}

}  // namespace tessera
