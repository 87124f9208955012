// Answers that need no data: the plan of a configuration, and how fast its step runs.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "tessera/graph/program.h"
#include "tessera/models/session.h"
#include "tessera/models/step_probe.h"
#include "tessera/models/trainer.h"
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

BenchResult bench(const Config& config, int64_t steps) {
  ImageShape image = loaded_shape(config);
  int64_t batch = config.data.batch;
  Session session(config, image, plain_normalization(image));
  PreparedStep& step = session.train_step(batch);
  session.bind();

  // A few batches of random bytes, so that no step repeats the one before.
  constexpr int kBatches = 4;
  auto bytes = static_cast<size_t>(batch * image.bytes());
  std::vector<uint8_t> images(kBatches * bytes);
  std::vector<int32_t> labels(static_cast<size_t>(kBatches * batch));
  RandomSequence random(config.seed, 0);
  for (uint8_t& pixel : images) pixel = static_cast<uint8_t>(random.bits());
  for (int32_t& label : labels)
    label = static_cast<int32_t>(random.below(static_cast<uint64_t>(config.model.classes)));

  Tensor image_slot = step.input(0), label_slot = step.input(1), lr = step.input(2);
  Tensor position = step.input(3);
  lr.assign_scalar(config.optimizer.lr / 10);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(steps));
  BenchResult result;
  for (int64_t i = 0; i < steps; ++i) {
    const StepProbe probe;
    auto at = static_cast<size_t>(i % kBatches);
    Clock::time_point start = Clock::now();
    image_slot.assign(std::span<const uint8_t>(images.data() + at * bytes, bytes));
    label_slot.assign(std::span<const int32_t>(labels.data() + at * static_cast<size_t>(batch),
                                               static_cast<size_t>(batch)));
    const int64_t now[2] = {i, 0};
    position.assign(std::span<const int64_t>(now));
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

std::string BenchResult::json() const {
  return fmt::format(
      "{{\"images_per_second\": {:.2f}, \"step_ms_p50\": {:.4f}, \"step_ms_p95\": {:.4f}, "
      "\"first_step_ms\": {:.4f}, \"compile_ms\": {:.4f}, \"loss\": {:.6f}, \"peak_bytes\": {}, "
      "\"threads\": {}}}",
      images_per_second, step_ms_p50, step_ms_p95, first_step_ms, compile_ms, loss, peak_bytes,
      threads);
}

}  // namespace tessera
