#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/arena.h"
#include "tessera/models/config/network.h"
#include "tessera/models/run/classifier.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/runs_ahead.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

struct TimedStep {
  CompiledStep* step;
};

// Returns the milliseconds of each step; sets the losses and the waiting of the result.
std::vector<double> time_steps(const Run& run, int64_t steps, BenchResult& result) {
  constexpr size_t kShownLosses = 20;
  const int64_t batch = run.config().data.batch;
  Session& session = run.session();
  CompiledStep& step = session.train_step(batch);
  const GeneratedBatches batches(run.config(), session);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(steps));
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
  if (exchange)
    result.waited = (exchange->wait_seconds() - waited) * 1000 / milliseconds_since(began);
  return times;
}

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

Table table_of(std::span<const ProfiledOp> ops) {
  Table table({{"op", nullptr},
               {"module_path", nullptr},
               {"phase", nullptr},
               {"us_median", "median us"},
               {"us_min", "min"},
               {"us_max", "max"},
               {nullptr, "", true}});
  for (const ProfiledOp& op : ops)
    table.add({op.op, op.module_path, op.phase, number(op.us.median, 1, 3), number(op.us.min, 1, 3),
               number(op.us.max, 1, 3), op_title(op.op, op.module_path)});
  return table;
}

}  // namespace

BenchResult bench(const Run& given, int64_t steps, const CompileOptions& options) {
  const Run run = given.as(Purpose::timing, DataNeed(), options);
  const SettingsScope settings(run.settings());
  require_fit(run);
  const int64_t batch = run.config().data.batch;
  Session& session = run.session();
  session.bind();
  BenchResult result;
  std::vector<double> times = time_steps(run, steps, result);
  if (times.empty()) return result;
  const double first_step_ms = times.front();
  if (times.size() > 1) times.erase(times.begin());
  std::ranges::sort(times);
  result.step_ms_p50 = times[times.size() / 2];
  result.images_per_second = 1000.0 * static_cast<double>(batch) / result.step_ms_p50;
  const double step_ms_p95 = times[times.size() * 95 / 100];
  auto peak_bytes =
      static_cast<int64_t>(context(session.device()).memory().statistics().peak_bytes);
  if (session.device().is_cpu())  // includes the batches, which the step does not need
    peak_bytes -= GeneratedBatches::planned_bytes(batch, session.image());
  int64_t parameters = 0;
  for (const Tensor& parameter : session.store().parameters()) parameters += parameter.elements();
  const int processes = run.exchange() ? run.exchange()->size() : 1;
  result.report
      .add("images_per_second", "speed", number(result.images_per_second, 1, 2, "images/s"))
      .add("step_ms_p50", "step", number(result.step_ms_p50, 2, 4, "ms"),
           fmt::format("median; 95 % take at most {:.2f} ms", step_ms_p95))
      .add("step_ms_p95", rounded(step_ms_p95, 4))
      .add("first_step_ms", "first step", number(first_step_ms, 2, 4, "ms"))
      .add("compile_ms", "compilation", number(session.compile_milliseconds(), 2, 4, "ms"))
      .add("loss", "loss", number(result.loss, 4, 6))
      .add("losses", Json::list_of(result.losses, [](double x) { return rounded(x, 6); }))
      .add("parameters", "parameters", parameters)
      .add("step_us", std::llround(1000 * result.step_ms_p50))
      .add("peak_bytes", "memory", byte_count(peak_bytes), "allocated for tensors, at most")
      .add("arena_bytes", session.arena_bytes())
      .add("total_bytes", total_bytes(session.regions()) + total_bytes(session.gpu_regions()))
      .add("threads", "threads", cpu_context().threads())
      .add("kernels", "kernels", cpu_context().kernels_name())
      .add("device", run.device().name())
      .add("processes", processes > 1 ? "processes" : nullptr, processes)
      .add("waited", processes > 1 ? "waited" : nullptr, percent(result.waited, 1, 4),
           "of the time, for other processes");
  return result;
}

Report bench_repeatedly(const Run& run, int64_t steps, int64_t repetitions,
                        const CompileOptions& options) {
  const SettingsScope settings(run.settings());
  BenchResult last;
  std::vector<double> step_ms;
  for (int64_t i = 0; i < repetitions; ++i)
    step_ms.push_back((last = bench(run, steps, options)).step_ms_p50);
  const Spread step = spread_of(step_ms);
  const auto range = [](const ProfiledOp& op) { return op.us.max - op.us.min; };
  std::vector<ProfiledOp> varying;
  if (run.config().mode != Mode::kEager)
    varying = profile(run, {.steps = repetitions, .compile = options}).ops;
  std::erase_if(varying, [&](const auto& op) { return range(op) < 0.1 * op.us.median; });
  std::ranges::stable_sort(varying, std::greater(), range);
  Report report;
  report
      .add(nullptr, "speed",
           number(last.images_per_second * last.step_ms_p50 / step.median, 1, 2, "images/s"))
      .add("step_ms", Json::list_of(step_ms, [](double x) { return rounded(x, 4); }))
      .add("step_ms_median", "step", number(step.median, 2, 4, "ms"),
           fmt::format("median of {}; {:.2f} to {:.2f} ms", step_ms.size(), step.min, step.max))
      .add("spread", "spread", percent(step.max / step.min - 1, 1, 4))
      .add("varying_ops", table_of(varying).json())
      .add("last", last.report.json())
      .add(nullptr, "threads", cpu_context().threads())
      .add(nullptr, "kernels", cpu_context().kernels_name());
  if (varying.empty()) return report;
  const auto shown = std::span(varying).first(std::min<size_t>(varying.size(), 10));
  return report.add(nullptr,
                    fmt::format("{} of the {} ops whose time varies", shown.size(), varying.size()),
                    table_of(shown));
}

Report bench_inference(const Run& run, int64_t calls) {
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
  if (!config.model.weights.empty()) {
    Pretrained weights(config.model.weights);
    weights.match(config, network.image);
    weights.load(network.store);
  }
  const Clock::time_point start = Clock::now();
  const Classifier single(network, 1);
  const double load_ms = milliseconds_since(start);
  const std::vector<double> one = times_of(single, calls);
  const int64_t batch = config.data.batch;
  const Classifier batched(network, batch);
  const std::vector<double> many = times_of(batched, calls);
  const double images_per_second = 1000.0 * static_cast<double>(batch) / many[many.size() / 2],
               p99_ms = one[one.size() * 99 / 100];
  const auto others = [](const Classifier& net) {
    return byte_count(static_cast<int64_t>(net.bytes().slots + net.bytes().arena));
  };
  Report report;
  report
      .add("p50_ms", "one image", number(one[one.size() / 2], 2, 4, "ms"),
           fmt::format("median; 99 % take at most {:.2f} ms", p99_ms))
      .add("p99_ms", rounded(p99_ms, 4))
      .add("images_per_second", "batches", number(images_per_second, 1, 2, "images/s"),
           fmt::format("of {} images", batch))
      .add("batch", batch)
      .add("load_ms", "load", number(load_ms, 1, 3, "ms"))
      .add("bytes", bytes_json(single.bytes()))
      .add("batch_bytes", bytes_json(batched.bytes()))
      .add(nullptr, "weights", byte_count(static_cast<int64_t>(single.bytes().weights)))
      .add(nullptr, "other memory", others(single), others(batched).text + " for a batch")
      .add("threads", "threads", cpu_context().threads())
      .add("kernels", "kernels", cpu_context().kernels_name());
  return report;
}

}  // namespace tessera
