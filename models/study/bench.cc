#include "tessera/models/study/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>

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

Report BenchResult::report() const {
  Report report;
  report.add("images_per_second", "speed", number(images_per_second, 1, 2, "images/s"))
      .add("step_ms_p50", "step", number(step_ms_p50, 2, 4, "ms"),
           fmt::format("median; 95 % take at most {:.2f} ms", step_ms_p95))
      .add("step_ms_p95", rounded(step_ms_p95, 4))
      .add("first_step_ms", "first step", number(first_step_ms, 2, 4, "ms"))
      .add("compile_ms", "compilation", number(compile_ms, 2, 4, "ms"))
      .add("loss", "loss", number(loss, 4, 6))
      .add("losses", Json::list_of(losses, [](double value) { return rounded(value, 6); }))
      .add("parameters", "parameters", parameters)
      .add("step_us", std::llround(1000 * step_ms_p50))
      .add("peak_bytes", "memory", byte_count(static_cast<int64_t>(peak_bytes)),
           "allocated for tensors, at most")
      .add("arena_bytes", arena_bytes)
      .add("total_bytes", total_bytes)
      .add("threads", "threads", threads)
      .add("kernels", "kernels", kernels)
      .add("device", device)
      .add("processes", processes > 1 ? "processes" : nullptr, processes)
      .add("waited", processes > 1 ? "waited" : nullptr, percent(waited, 1, 4),
           "of the time, for other processes");
  return report;
}

Report RepeatedBench::report() const {
  constexpr size_t kShown = 10;
  std::vector<Json> ops;
  Table slowest({{nullptr, "median us"}, {nullptr, "min"}, {nullptr, "max"}, {nullptr, "", true}});
  for (const ProfiledOp& op : varying) {
    ops.push_back(Json::object({{"op", op.op},
                                {"module_path", op.module_path},
                                {"phase", op.phase},
                                {"us_median", rounded(op.us.median, 3)},
                                {"us_min", rounded(op.us.min, 3)},
                                {"us_max", rounded(op.us.max, 3)}}));
    if (slowest.rows() < kShown)
      slowest.add({number(op.us.median, 1), number(op.us.min, 1), number(op.us.max, 1),
                   op_title(op.op, op.module_path)});
  }
  Report report;
  report
      .add(nullptr, "speed",
           number(last.images_per_second * last.step_ms_p50 / step.median, 1, 2, "images/s"))
      .add("step_ms", Json::list_of(step_ms, [](double value) { return rounded(value, 4); }))
      .add("step_ms_median", "step", number(step.median, 2, 4, "ms"),
           fmt::format("median of {}; {:.2f} to {:.2f} ms", step_ms.size(), step.min, step.max))
      .add("spread", "spread", percent(step.max / step.min - 1, 1, 4))
      .add("varying_ops", Json::list(ops))
      .add("last", last.report().json())
      .add(nullptr, "threads", last.threads)
      .add(nullptr, "kernels", last.kernels);
  if (!varying.empty())
    report.add(nullptr,
               fmt::format("{} of the {} ops whose time varies", slowest.rows(), varying.size()),
               slowest);
  return report;
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

Report InferenceBench::report() const {
  Report report;
  report
      .add("p50_ms", "one image", number(p50_ms, 2, 4, "ms"),
           fmt::format("median; 99 % take at most {:.2f} ms", p99_ms))
      .add("p99_ms", rounded(p99_ms, 4))
      .add("images_per_second", "batches", number(images_per_second, 1, 2, "images/s"),
           fmt::format("of {} images", batch))
      .add("batch", batch)
      .add("load_ms", "load", number(load_ms, 1, 3, "ms"))
      .add("bytes", bytes_json(one))
      .add("batch_bytes", bytes_json(many))
      .add(nullptr, "weights", byte_count(static_cast<int64_t>(one.weights)))
      .add(nullptr, "other memory", byte_count(static_cast<int64_t>(one.slots + one.arena)),
           byte_count(static_cast<int64_t>(many.slots + many.arena)).text + " for a batch")
      .add("threads", "threads", threads)
      .add("kernels", "kernels", kernels);
  return report;
}

}  // namespace tessera
