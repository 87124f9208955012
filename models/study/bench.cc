#include "tessera/models/study/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/graph/arena.h"
#include "tessera/models/config/network.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/runs_ahead.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kShownLosses = 20;

struct TimedStep {
  CompiledStep* step;
};

using Clock = std::chrono::steady_clock;

// Returns sorted times, without the first call.
std::vector<double> times_of(const Classifier& net, int64_t calls) {
  std::vector<uint8_t> images(static_cast<size_t>(net.image().bytes() * net.batch()));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<uint8_t>(i * 31 % 251);
  net(images);
  std::vector<double> times;
  for (int64_t k = 0; k < calls; ++k) {
    const Clock::time_point start = Clock::now();
    net(images);
    times.push_back(milliseconds_since(start));
  }
  std::ranges::sort(times);
  return times;
}

Json bytes_json(const Classifier::Bytes& bytes) {
  return Json::object({{"weights", bytes.weights}, {"slots", bytes.slots}, {"arena", bytes.arena}});
}

}  // namespace

BenchResult bench(const Run& given, int64_t steps, const CompileOptions& options) {
  const Run run = given.as(Purpose::timing, DataNeed(), options);
  const SettingsScope settings(run.settings());
  require_fit(run);
  const int64_t batch = run.config().data.batch;
  Session& session = run.session();
  CompiledStep& step = session.train_step(batch);
  session.bind();

  const GeneratedBatches batches(run.config(), session);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(steps));
  BenchResult result;
  result.losses.reserve(kShownLosses);
  const std::shared_ptr<Exchange>& exchange = run.exchange();
  const AbandonOnError abandon(exchange);
  const double waited = exchange ? exchange->wait_seconds() : 0;
  const Clock::time_point began = Clock::now();
  Clock::time_point start = began;
  RunsAhead<TimedStep> runs([&](const TimedStep& run) {
    result.loss = run.step->host_output(0).item<double>();
    if (result.losses.size() < kShownLosses) result.losses.push_back(result.loss);
    times.push_back(milliseconds_since(std::exchange(start, Clock::now())));
  });
  for (int64_t i = 0; i < steps; ++i) {
    const StepProbe probe;
    batches.fill(session, step, i, batch);
    runs.submit({&step});
  }
  runs.drain();
  if (times.empty()) return result;
  if (exchange) {
    result.processes = exchange->size();
    result.waited = (exchange->wait_seconds() - waited) * 1000 / milliseconds_since(began);
  }
  result.first_step_ms = times.front();
  if (times.size() > 1) times.erase(times.begin());
  std::ranges::sort(times);
  result.step_ms_p50 = times[times.size() / 2];
  result.step_ms_p95 = times[times.size() * 95 / 100];
  result.images_per_second = 1000.0 * static_cast<double>(batch) / result.step_ms_p50;
  result.compile_ms = session.compile_milliseconds();
  result.peak_bytes = context(session.device()).memory().statistics().peak_bytes;
  if (session.device().is_cpu())  // includes the batches, which the step does not need
    result.peak_bytes -=
        static_cast<size_t>(GeneratedBatches::planned_bytes(batch, session.image()));
  result.arena_bytes = session.arena_bytes();
  result.total_bytes =
      static_cast<size_t>(total_bytes(session.regions()) + total_bytes(session.gpu_regions()));
  for (const Tensor& parameter : session.store().parameters())
    result.parameters += parameter.elements();
  result.threads = cpu_context().threads();
  result.kernels = cpu_context().kernels_name();
  result.device = run.device().name();
  return result;
}

RepeatedBench bench_repeatedly(const Run& run, int64_t steps, int64_t repetitions,
                               const CompileOptions& options) {
  RepeatedBench all;
  for (int64_t i = 0; i < repetitions; ++i)
    all.step_ms.push_back((all.last = bench(run, steps, options)).step_ms_p50);
  std::vector<double> sorted = all.step_ms;
  all.step = spread_of(sorted);
  if (run.config().mode == Mode::kEager) return all;
  const auto range = [](const ProfiledOp& op) { return op.us.max - op.us.min; };
  all.varying = profile(run, {.steps = repetitions, .compile = options}).ops;
  std::erase_if(all.varying, [&](const auto& op) { return range(op) < 0.1 * op.us.median; });
  std::ranges::stable_sort(all.varying,
                           [&](const auto& a, const auto& b) { return range(a) > range(b); });
  return all;
}

std::string RepeatedBench::text() const {
  const size_t shown = std::min<size_t>(10, varying.size());
  std::string text = fmt::format(
      "{:.1f} images/s  step {:.2f} ms, median of {}  min {:.2f}  max {:.2f}  spread {:.1f} %  {} "
      "threads  {} kernels",
      last.images_per_second * last.step_ms_p50 / step.median, step.median, step_ms.size(),
      step.min, step.max, 100 * (step.max / step.min - 1), last.threads, last.kernels);
  if (shown > 0)
    text += fmt::format("\n{:>9} {:>9} {:>9}  {} of the {} ops whose time varies", "median us",
                        "min", "max", shown, varying.size());
  for (const ProfiledOp& op : std::span(varying).first(shown))
    text += fmt::format("\n{:>9.1f} {:>9.1f} {:>9.1f}  {}", op.us.median, op.us.min, op.us.max,
                        op_title(op.op, op.module_path));
  return text;
}

std::string RepeatedBench::json() const {
  std::vector<Json> steps, ops;
  for (const double value : step_ms) steps.push_back(rounded(value, 4));
  for (const ProfiledOp& op : varying)
    ops.push_back(Json::object({{"op", op.op},
                                {"module_path", op.module_path},
                                {"phase", op.phase},
                                {"us_median", rounded(op.us.median, 3)},
                                {"us_min", rounded(op.us.min, 3)},
                                {"us_max", rounded(op.us.max, 3)}}));
  return Json::object({{"step_ms", Json::list(steps)},
                       {"step_ms_median", rounded(step.median, 4)},
                       {"spread", rounded(step.max / step.min - 1, 4)},
                       {"varying_ops", Json::list(ops)},
                       {"last", Json::parse(last.json())}})
      .text();
}

std::string BenchResult::json() const {
  std::vector<Json> first;
  for (const double value : losses) first.push_back(rounded(value, 6));
  return Json::object({{"images_per_second", rounded(images_per_second, 2)},
                       {"step_ms_p50", rounded(step_ms_p50, 4)},
                       {"step_ms_p95", rounded(step_ms_p95, 4)},
                       {"first_step_ms", rounded(first_step_ms, 4)},
                       {"compile_ms", rounded(compile_ms, 4)},
                       {"loss", rounded(loss, 6)},
                       {"losses", Json::list(first)},
                       {"parameters", parameters},
                       {"step_us", std::llround(1000 * step_ms_p50)},
                       {"peak_bytes", peak_bytes},
                       {"arena_bytes", arena_bytes},
                       {"total_bytes", total_bytes},
                       {"threads", threads},
                       {"kernels", kernels},
                       {"device", device},
                       {"processes", processes},
                       {"waited", rounded(waited, 4)}})
      .text();
}

InferenceBench bench_inference(const Run& run, int64_t calls) {
  const SettingsScope settings(run.settings());
  const Config& config = run.config();
  run.device();  // throws if the device cannot be used
  TrainedNetwork network;
  network.config = config;
  network.image = training_image(config, DataNeed());
  network.inference =
      inference_json(config, network.image, plain_normalization(network.image), {}).text();
  const DeviceScope cpu("cpu:0");
  network.network = make_network(config, network.image, network.store);
  network.store.materialize();
  InferenceBench result;
  const Clock::time_point start = Clock::now();
  const Classifier single(network, 1);
  result.load_ms = milliseconds_since(start);
  const std::vector<double> one = times_of(single, calls);
  result.p50_ms = one[one.size() / 2];
  result.p99_ms = one[one.size() * 99 / 100];
  result.one = single.bytes();
  result.batch = config.data.batch;
  const Classifier batched(network, result.batch);
  const std::vector<double> many = times_of(batched, calls);
  result.images_per_second = 1000.0 * static_cast<double>(result.batch) / many[many.size() / 2];
  result.many = batched.bytes();
  result.threads = cpu_context().threads();
  result.kernels = cpu_context().kernels_name();
  return result;
}

std::string InferenceBench::json() const {
  return Json::object({{"p50_ms", rounded(p50_ms, 4)},
                       {"p99_ms", rounded(p99_ms, 4)},
                       {"images_per_second", rounded(images_per_second, 2)},
                       {"batch", batch},
                       {"load_ms", rounded(load_ms, 3)},
                       {"bytes", bytes_json(one)},
                       {"batch_bytes", bytes_json(many)},
                       {"threads", threads},
                       {"kernels", kernels}})
      .text();
}

}  // namespace tessera
