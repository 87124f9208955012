#include "tessera/models/study/profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/models/run/profile_costs.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/runs_ahead.h"
#include "tessera/models/training/session.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

namespace {

// The spans of a program's nodes, step after step; allocated once for all steps.
class NodeTimes final : public NodeObserver {
 public:
  NodeTimes(size_t nodes, int64_t steps)
      : nodes_(nodes), spans_(nodes * static_cast<size_t>(steps)) {}
  double now() const { return 1000 * milliseconds_since(start_); }  // microseconds
  void start_step(int64_t step) { first_ = static_cast<size_t>(step) * nodes_; }
  void begin(size_t node) override { spans_[first_ + node].begin = now(); }
  void end(size_t node) override { spans_[first_ + node].end = now(); }
  const TimeSpan& span(int64_t step, size_t node) const {
    return spans_[static_cast<size_t>(step) * nodes_ + node];
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
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

// Returns the best rate of issue(), whose first call, which loads libraries, does not count.
double gpu_rate(Context& gpu, double amount, const std::function<void()>& issue) {
  issue();
  gpu.synchronize();
  return best_rate(amount, [&] {
    issue();
    gpu.synchronize();
  });
}

// Returns the rate of problems of size n, 2n, 4n ... until one takes a millisecond or the GPU has
// no memory, or no such product, for it.
template <class Rate>
double rate_of_large(int64_t n, Rate&& rate) {
  double best = 0;
  try {
    for (double ms = 0; ms < 1; n *= 2) {
      const auto [amount, gigas] = rate(n);
      best = std::max(best, gigas);
      ms = amount / gigas / 1e6;
    }
  } catch (const DeviceError&) {
  }
  return best;
}

// Returns the rates of cuBLASLt's products and of copies. Frees what they took.
MachinePeaks measure_gpu_peaks(const Run& run) {
  const Device device = run.device();
  const DeviceScope scope(device);
  AllocatorSettings settings;
  if (const auto& limit = run.config().memory.gpu_limit)
    settings.limit = static_cast<size_t>(limit->bytes);
  const EagerAllocatorScope memory(device, "caching", settings);
  Context& gpu = context(device);
  const auto product_rate = [&](DType dtype) {
    return rate_of_large(64, [&](int64_t n) {
      const Tensor a = cast(matmul(random_normal({n, 1}, 1), random_normal({1, n}, 2)), dtype);
      const double flops = 2.0 * static_cast<double>(n * n * n);
      return std::pair(flops, gpu_rate(gpu, flops, [&] { matmul(a, a); }));
    });
  };
  const double copied = rate_of_large(1 << 20, [&](int64_t n) {
    const Tensor x = zeros({n});
    const double bytes = 2.0 * sizeof(float) * static_cast<double>(n);
    return std::pair(bytes, gpu_rate(gpu, bytes, [&] { copy(x); }));
  });
  return {.gflops = product_rate(DType::f32),
          .bf16_gflops = product_rate(DType::bf16),
          .copy_gbytes = copied};
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
  NodeTimes times(program.compiled().graph.nodes.size(), profile.steps);
  int64_t index = 0;
  profile.plain_steps.reserve(static_cast<size_t>(profile.steps));
  profile.observed_steps.reserve(static_cast<size_t>(profile.steps));
  const auto run = [&] {
    const StepProbe probe;
    const double begin = times.now();
    batches.fill(session, step, index++, profile.batch);
    step.submit();
    step.collect();
    return TimeSpan{begin, times.now()};
  };
  constexpr double kWarm = 200'000;  // microseconds; warms up clocks and caches
  const auto goes_on = [&](int64_t i) {
    const bool more = i < warmup || (warmup > 0 && times.now() < kWarm);
    const std::shared_ptr<Exchange>& exchange = timed.exchange();
    return exchange ? exchange->gather(more ? "1" : "")[0] == "1" : more;
  };
  for (int64_t i = 0; goes_on(i); ++i) run();
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
  if (!timed.device().is_cpu() && timed.config().memory.cost_model == "roofline") return;
  profile.costs = timed.config().memory.cost_model;
  const auto costs = make_cost_model(profile.costs);
  for (const ProfiledOp& op : profile.ops)
    profile.estimate_ms += static_cast<double>(costs->nanoseconds(
                               program.compiled().graph, program.compiled().graph.nodes[op.node])) /
                           1e6;
}

struct Timed {
  double us = 0;
  std::string algorithm, shape;
};

using TimesByOp = std::map<std::string, Timed>;

struct ProfileFile {
  std::vector<std::pair<std::string, std::string>> settings;  // settings that affect times
  double step_ms = 0;
  TimesByOp kinds;
  TimesByOp ops;  // by name, module path and phase, numbered if not unique
};

ProfileFile read(const std::string& text, const std::string& name) {
  ProfileFile file;
  try {
    const Json root = Json::parse(text);
    require_format(root, kProfileFormat);
    for (const char* key : {"device", "isa", "kernels", "threads", "batch"})
      file.settings.emplace_back(key, root[key].text());
    file.step_ms = root["step_ms"]["median"].number();
    for (const Json& kind : root["kinds"].items())
      file.kinds[kind["op"].string()] = {kind["us"].number(), "", ""};
    std::map<std::string, int> seen;
    for (const Json& op : root["ops"].items()) {
      std::string title = op_title(op["op"].string(), op["module_path"].string());
      if (op["phase"].string() == "backward") title += ", backward";  // gradients of products
      if (const int n = seen[title]++; n > 0) title += fmt::format(" ({})", n + 1);
      file.ops[title] = {op["us"]["median"].number(), op["algorithm"].string(),
                         op["shape"].string()};
    }
  } catch (const Error& error) {
    throw ConfigError(
        fmt::format("{}: is not a profile of `trainer profile --json`: {}", name, error.what()));
  }
  return file;
}

struct Change {
  std::string title;
  std::optional<Timed> before, after;
  double difference() const { return (after ? after->us : 0) - (before ? before->us : 0); }
  // Returns the other differences as text.
  std::string remark() const {
    if (!before) return fmt::format("  only in the second: {} {}", after->algorithm, after->shape);
    if (!after) return fmt::format("  only in the first: {} {}", before->algorithm, before->shape);
    std::string text;
    if (before->algorithm != after->algorithm)
      text += fmt::format("  {} => {}", before->algorithm, after->algorithm);
    if (before->shape != after->shape)
      text += fmt::format("  {} => {}", before->shape, after->shape);
    return text;
  }
};

std::vector<Change> changes(const TimesByOp& a, const TimesByOp& b) {
  std::vector<Change> all;
  for (const auto& [title, timed] : a) {
    const auto other = b.find(title);
    all.push_back({title, timed, {}});
    if (other != b.end()) all.back().after = other->second;
  }
  for (const auto& [title, timed] : b)
    if (!a.contains(title)) all.push_back({title, {}, timed});
  std::ranges::stable_sort(all, [](const Change& x, const Change& y) {
    return std::abs(x.difference()) > std::abs(y.difference());
  });
  return all;
}

Cell ratio_of(double before, double now) {
  return number(before > 0 && now > 0 ? now / before : NAN, 3);
}

std::string table(const TimesByOp& a, const TimesByOp& b, size_t most, const char* what) {
  const std::vector<Change> all = changes(a, b);
  const size_t shown = most == 0 ? all.size() : std::min(most, all.size());
  const auto time = [](const std::optional<Timed>& timed) { return timed ? timed->us : NAN; };
  Table table({{nullptr, "us"},
               {nullptr, "now"},
               {nullptr, "ratio"},
               {nullptr, "difference"},
               {nullptr, what, true}});
  for (const Change& c : std::span(all).first(shown)) {
    const double before = time(c.before), now = time(c.after);
    table.add({number(before, 1), number(now, 1), ratio_of(before, now),
               fmt::format("{:+.1f}", c.difference()), c.title + c.remark()});
  }
  return table.text() + (shown < all.size()
                             ? fmt::format("and {} more; --ops 0 shows all\n", all.size() - shown)
                             : "");
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const double median = (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
  return {values.front(), median, values.back()};
}

Run run_to_time(const Run& given, const CompileOptions& compile) {
  if (given.config().mode == Mode::kEager)
    throw ConfigError(
        "profile: mode: eager has no graph, so ops cannot be timed one by one; set mode=graph");
  Run run = given.as(Purpose::timing, DataNeed(), compile);
  require_fit(run);
  return run;
}

ProfiledOp describe_op(const Program& program, size_t n) {
  const Graph& graph = program.compiled().graph;
  const Node& node = graph.nodes[n];
  const DType dtype =
      (node.inputs.empty() ? graph.values[node.outputs[0]] : graph.values[node.inputs[0]])
          .spec.dtype;
  const std::string& algorithm = program.compiled().algorithms[n];
  const bool on_cpu = graph.values[node.outputs[0]].spec.device.is_cpu();
  const bool pairs = on_cpu
                         ? dtype == DType::bf16 && (algorithm == "direct" || algorithm == "native")
                         : is_half(dtype) && (algorithm == "cudnn" || algorithm == "cublaslt");
  return {.node = n,
          .op = std::string(node.op->name()) + (node.recomputed ? " recomputed" : ""),
          .module_path = location_of(graph, node),
          .phase = phase_name(node.phase),
          .algorithm = algorithm,
          .shape = shapes_text(graph, node.inputs) + " -> " + shapes_text(graph, node.outputs),
          .dtype = std::string(name_of(dtype)),
          .pairs = pairs,
          .cost = node.op->cost(graph.input_specs(node)),
          .us = {}};
}

std::string op_title(const std::string& op, const std::string& module_path) {
  return module_path.empty() ? op : op + " " + module_path;
}

double Profile::ops_us() const {
  double sum = 0;
  for (const ProfiledOp& op : ops) sum += op.us.median;
  return sum;
}

Profile profile(const Run& given, const ProfileOptions& options) {
  const SettingsScope settings(given.settings());
  // An op's time is separate from others only if the op is waited for.
  const Run run = run_to_time(given.with([](Config& config) { config.gpu.synchronous = true; }),
                              options.compile);
  Profile profile{.device = run.device().name(),
                  .kernels = cpu_context().kernels_name(),
                  .isa = isa_name(current_isa()),
                  .threads = cpu_context().threads(),
                  .batch = run.config().data.batch,
                  .steps = options.steps};
  profile.peaks =
      run.device().is_cpu() ? measure_peaks(cpu_context().pool()) : measure_gpu_peaks(run);
  run.session().bind();
  const AbandonOnError abandon(run.exchange());
  time_steps(profile, run, options.warmup);
  return profile;
}

std::string diff_profiles(const std::string& a, const std::string& name_a, const std::string& b,
                          const std::string& name_b, size_t most) {
  const ProfileFile before = read(a, name_a), after = read(b, name_b);
  std::string text;
  for (size_t i = 0; i < before.settings.size(); ++i)
    if (const auto& x = before.settings[i], &y = after.settings[i]; x != y)
      text += fmt::format("{}: {} => {}\n", x.first, x.second, y.second);
  text += fmt::format("step {:.3f} => {:.3f} ms, ratio {}\n\n", before.step_ms, after.step_ms,
                      ratio_of(before.step_ms, after.step_ms).text);
  return text + table(before.kinds, after.kinds, 0, "kind") + "\n" +
         table(before.ops, after.ops, most, "op, module");
}

const std::vector<SampleNetwork>& sample_networks() {
  static const std::vector<SampleNetwork> samples = [] {
    std::vector<SampleNetwork> list;
    for (const Network& network : networks())
      for (const TimedAt& at : network.timed)
        list.push_back({network.name.c_str(), at.image_size, at.batch});
    std::ranges::stable_sort(list, {}, &SampleNetwork::image_size);
    return list;
  }();
  return samples;
}

std::string profile_machine(const Config& config, const ProfileOptions& options,
                            std::span<const SampleNetwork> networks,
                            const std::function<void(const SampleNetwork&)>& started) {
  // A shared computer has slow minutes, so each network is timed in several rounds.
  constexpr int64_t kRounds = 3;
  ProfileOptions part = options;
  part.steps = (options.steps + kRounds - 1) / kRounds;
  std::vector<Json> profiles;
  for (int64_t i = 0; i < kRounds * std::ssize(networks); ++i) {
    const SampleNetwork& network = networks[static_cast<size_t>(i % std::ssize(networks))];
    if (started) started(network);
    Config sample = config;
    sample.model = {};
    sample.model.name = network.model;
    sample.data = {};
    sample.data.name = "synthetic";
    sample.data.image_size = network.image_size;
    sample.data.batch = network.batch;
    profiles.push_back(profile(sample, part).report().json());
  }
  return Json::object({{"format", kMachineFormat}, {"profiles", Json::list(profiles)}}).text();
}

}  // namespace tessera
