#include "tessera/models/training/memory_need.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/arena.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/training/budget_curve.h"
#include "tessera/models/training/memory_budget.h"
#include "tessera/models/training/profile_costs.h"
#include "tessera/models/training/session.h"

namespace tessera {
namespace {

constexpr int64_t kMaxTried = int64_t{1} << 20;

Config in_graph_mode(Config config) {
  config.mode = Mode::kGraph;
  return config;
}

// What needs no recomputation is looked for.
Config without_budget(Config config) {
  config.memory.budget.reset();
  return config;
}

// The bound is that of the step whose arena is the largest, which is named where it is not the
// first.
void bound_arena(PlanReport& report, Session& session, const RunSteps& steps) {
  int64_t most = report.plan.bytes;
  const auto look = [&](CompiledStep& step, const char* kind, int64_t images) {
    const Program& program = *step.program();
    if (program.compiled().plan().bytes <= most) return;
    most = program.compiled().plan().bytes;
    report.lower_bound = lower_bound(program.compiled().problem());
    report.arena_of = fmt::format("{} of {} images", kind, images);
  };
  for (const int64_t count : steps.train) look(session.train_step(count), "training", count);
  for (const int64_t count : steps.evaluation)
    look(session.evaluation_step(count), "evaluation", count);
}

}  // namespace

int64_t MemoryNeed::bytes() const { return total_bytes(blocks); }
int64_t MemoryNeed::gpu_bytes() const { return total_bytes(gpu_blocks); }

MemoryNeed memory_need(Session& session, const Config& config, const DataNeed& data,
                       Purpose purpose) {
  const RunSteps steps = run_steps(config, data, purpose);
  MemoryNeed need{session.regions(), session.gpu_regions(),
                  plan_report(*first_step(session, steps).compiled_graph()),
                  data.complete || purpose == Purpose::timing};
  need.report.arena = static_cast<int64_t>(session.arena_bytes());
  bound_arena(need.report, session, steps);
  const ParameterCount parameters = parameter_count(config, data);
  need.report.trainable = parameters.trainable;
  need.report.frozen = parameters.frozen;
  for (HostBuffer& block : blocks_beside(config, data, purpose, session.store().persistent()))
    need.blocks.push_back(std::move(block));
  return need;
}

MemoryNeed memory_need(const Config& config, const DataNeed& data, Purpose purpose,
                       const CompileOptions& options) {
  const auto session = prepared_session(in_graph_mode(config), data, purpose, options);
  return memory_need(*session, config, data, purpose);
}

MemoryNeed memory_need(const Config& config, Purpose purpose) {
  return memory_need(config, known_data(config, purpose), purpose);
}

struct BatchSearch::Impl {
  struct Fixed {  // what does not change with loaders and checkpoints
    Need need;
    Tensors tensors;
  };
  const Fixed& fixed(const Config& config);
  Need need(const Config& config);
  int64_t bytes(const Config& config);
  int64_t images_of(const Config& config) const {
    return purpose == Purpose::evaluation ? evaluation_batch(config) : config.data.batch;
  }

  const DataNeed data;
  const Purpose purpose;
  const bool on_gpu;
  std::optional<double> slowdown;
  const int64_t most;  // images that a batch may have
  // By train.accumulate, the batch of evaluations where one is set, and the batch.
  std::map<std::tuple<int, int64_t, int64_t>, Fixed> known;
};

namespace {

// Nanoseconds of an image in the first step of the run, by estimate.
double time_of_image(Session& session, const Config& config, const RunSteps& steps) {
  const auto costs = costs_named(config.memory.costs);
  const Graph& graph = first_step(session, steps).compiled_graph()->graph;
  int64_t sum = 0;
  for (const Node& node : graph.nodes) sum += costs->nanoseconds(graph, node);
  const int64_t images = steps.train.empty() ? steps.evaluation.front() : steps.train.front();
  return static_cast<double>(sum) / static_cast<double>(images);
}

}  // namespace

const BatchSearch::Impl::Fixed& BatchSearch::Impl::fixed(const Config& config) {
  const int64_t evaluated = purpose == Purpose::evaluation ? 0 : config.eval.batch;
  const std::tuple key(config.train.accumulate, evaluated, images_of(config));
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const auto session = prepared_session(in_graph_mode(without_budget(config)), data, purpose);
  const RunSteps steps = run_steps(config, data, purpose);
  const Need need{total_bytes(session->regions()),
                  total_bytes(session->gpu_regions()),
                  static_cast<int64_t>(session->arena_bytes()),
                  time_of_image(*session, config, steps),
                  !session->store().buffers().empty(),
                  std::ssize(first_step(*session, steps).compiled_graph()->graph.nodes)};
  return known[key] = {need, session->store().persistent()};
}

BatchSearch::Need BatchSearch::Impl::need(const Config& config) {
  const Fixed& parts = fixed(config);
  Need need = parts.need;
  need.bytes += total_bytes(blocks_beside(config, data, purpose, parts.tensors));
  return need;
}

int64_t BatchSearch::Impl::bytes(const Config& config) {
  if (slowdown) return least_budget(config, data, *slowdown);
  return on_gpu ? need(config).gpu_bytes : need(config).bytes;
}

namespace {

int64_t most_images(const DataNeed& data, Purpose purpose) {
  if (purpose == Purpose::timing) return kMaxTried;
  const int64_t count = purpose == Purpose::training ? data.train_count : data.test_count;
  return count > 0 ? std::min(count, kMaxTried) : kMaxTried;
}

// What a batch needs grows nearly like a line: the one through the two known batches that lie
// around the limit, or both on one side of it; of a single one, through nothing.
int64_t guess(const std::map<int64_t, int64_t>& seen, int64_t fits, int64_t fails, int64_t limit) {
  auto low = seen.find(fits), high = seen.find(fails);
  if (low != seen.end() && high == seen.end() && low != seen.begin()) high = low--;
  if (low == seen.end() && std::next(high) != seen.end()) low = high++;
  std::pair<int64_t, int64_t> a, b;  // batch and bytes
  if (low != seen.end()) a = *low;
  if (high != seen.end()) b = *high;
  if (b.first == 0) std::swap(a, b);
  const double each =
      static_cast<double>(b.second - a.second) / static_cast<double>(b.first - a.first);
  const double more = static_cast<double>(limit - b.second) / std::max(each, 1.0);
  constexpr auto kFar = static_cast<double>(kMaxTried);
  return b.first + static_cast<int64_t>(std::clamp(more, -kFar, kFar));
}

}  // namespace

void set_batch(Config& config, Purpose purpose, int64_t images) {
  (purpose == Purpose::evaluation ? config.eval.batch : config.data.batch) = images;
}

BatchSearch::BatchSearch(const DataNeed& data, Purpose purpose, bool on_gpu)
    : impl_(new Impl{data, purpose, on_gpu, {}, most_images(data, purpose), {}}) {}
BatchSearch::BatchSearch(const DataNeed& data, double slowdown, bool on_gpu)
    : impl_(new Impl{
          data, Purpose::training, on_gpu, slowdown, most_images(data, Purpose::training), {}}) {}
BatchSearch::~BatchSearch() = default;

BatchSearch::Need BatchSearch::need(const Config& config) { return impl_->need(config); }

BatchSearch::Found BatchSearch::largest(const Config& config, int64_t limit, int64_t compile) {
  // A budget that is smaller decides, and how little a training can be brought to.
  if (config.memory.budget && !impl_->slowdown)
    if (const Device device = configured_device(config); device.is_cpu() != impl_->on_gpu)
      if (const int64_t budget = budget_bytes(config, device); budget <= limit) {
        limit = budget;
        if (impl_->purpose == Purpose::training) impl_->slowdown = INFINITY;
      }
  Config other = config;
  std::map<int64_t, int64_t> seen;
  const int64_t most = impl_->most;
  int64_t fits = 0, fails = most + 1;
  const auto look = [&](int64_t batch) {
    set_batch(other, impl_->purpose, batch);
    seen[batch] = impl_->bytes(other);
    if (seen[batch] <= limit) {
      fits = std::max(fits, batch);
    } else {
      fails = std::min(fails, batch);
    }
  };
  for (const auto& [key, entry] : impl_->known)
    if (const auto& [accumulate, evaluated, batch] = key;
        accumulate == config.train.accumulate && batch > fits && batch < fails)
      look(batch);
  if (seen.empty()) look(std::clamp<int64_t>(impl_->images_of(config), 1, most)), --compile;
  for (int64_t round = 0; fails - fits > 1; ++round, --compile) {
    if (compile <= 0) return {fits, false};
    int64_t next = guess(seen, fits, fails, limit);
    // The middle where the line does not close in.
    if (round % 4 == 3 && (fits == 0 || fails <= most)) next = fits + (fails - fits) / 2;
    look(std::clamp(next, fits + 1, fails - 1));
  }
  return {fits, true};
}

int64_t largest_batch(const Config& config, int64_t limit) {
  Config limited = config;
  limited.memory.limit = ByteSize{limit};
  return BatchSearch(known_data(limited), Purpose::training).largest(limited, limit).batch;
}

int64_t largest_batch_within(const Config& config, int64_t budget, double slowdown) {
  return BatchSearch(known_data(config), slowdown, !configured_device(config).is_cpu())
      .largest(config, budget)
      .batch;
}

int64_t largest_batch_on_gpu(const Config& config, int64_t bytes) {
  return BatchSearch(known_data(config), Purpose::training, true).largest(config, bytes).batch;
}

}  // namespace tessera
