#include "tessera/models/training/batch_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "tessera/graph/compiled_graph.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/training/memory_budget.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/profile_costs.h"
#include "tessera/models/training/session.h"

namespace tessera {
namespace {

constexpr int64_t kMaxTried = int64_t{1} << 20;

// Returns the estimated nanoseconds per image in the first step of the run.
double time_of_image(const Run& run) {
  const auto costs = make_cost_model(run.config().memory.cost_model);
  const RunSteps steps = run.steps();
  const Graph& graph = first_step(run.session(), steps).compiled_graph()->graph;
  int64_t sum = 0;
  for (const Node& node : graph.nodes) sum += costs->nanoseconds(graph, node);
  const int64_t images = steps.train.empty() ? steps.evaluation.front() : steps.train.front();
  return static_cast<double>(sum) / static_cast<double>(images);
}

int64_t images_of(const Run& run) {
  return run.purpose() == Purpose::evaluation ? evaluation_batch(run.config())
                                              : run.config().data.batch;
}

// Returns the largest possible batch.
int64_t max_images(const Run& run) {
  if (run.purpose() == Purpose::timing) return kMaxTried;
  const DataNeed& data = run.data_need();
  const int64_t count = run.purpose() == Purpose::training ? data.train_count : data.test_count;
  return count > 0 ? std::min(count, kMaxTried) : kMaxTried;
}

// Guesses the batch that uses the limit exactly, by linear interpolation of the bytes: through the
// two known batches around the limit, or two on one side, or one and (0, 0).
int64_t guess(const std::map<int64_t, int64_t>& seen, int64_t fits, int64_t fails, int64_t limit) {
  auto low = seen.find(fits), high = seen.find(fails);
  if (low != seen.end() && high == seen.end() && low != seen.begin()) high = low--;
  if (low == seen.end() && std::next(high) != seen.end()) low = high++;
  std::pair<int64_t, int64_t> a, b;  // (batch, bytes)
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

const BatchSearch::Fixed& BatchSearch::fixed(const Run& run) {
  const Config& config = run.config();
  const int64_t evaluated = run.purpose() == Purpose::evaluation ? 0 : config.eval.batch;
  const std::tuple key(config.train.accumulate, evaluated, images_of(run));
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const Run plain = run.with([](Config& c) { c.mode = Mode::kGraph, c.memory.budget.reset(); });
  Session& session = plain.session();
  const Need need{total_bytes(session.regions()),
                  total_bytes(session.gpu_regions()),
                  static_cast<int64_t>(session.arena_bytes()),
                  time_of_image(plain),
                  !session.store().buffers().empty(),
                  std::ssize(first_step(session, plain.steps()).compiled_graph()->graph.nodes)};
  return known_[key] = {need, session.store().persistent()};
}

BatchSearch::Need BatchSearch::need(const Run& run) {
  const Fixed& parts = fixed(run);
  Need need = parts.need;
  need.bytes += total_bytes(other_blocks(run, parts.tensors));
  return need;
}

int64_t BatchSearch::bytes(const Run& run) {
  if (slowdown_) return min_budget(run, *slowdown_);
  return on_gpu_ ? need(run).gpu_bytes : need(run).bytes;
}

void set_batch(Config& config, Purpose purpose, int64_t images) {
  (purpose == Purpose::evaluation ? config.eval.batch : config.data.batch) = images;
}

BatchSearch::BatchSearch(const Run& run, bool on_gpu) : on_gpu_(on_gpu), most_(max_images(run)) {}
BatchSearch::BatchSearch(const Run& run, double slowdown, bool on_gpu)
    : on_gpu_(on_gpu), slowdown_(slowdown), most_(max_images(run)) {}

BatchSearch::Found BatchSearch::largest(const Run& run, int64_t limit, int64_t compile) {
  // A smaller budget decides, and then the minimum to which recomputation can reduce a training.
  if (run.config().memory.budget && !slowdown_ && run.device().is_cpu() != on_gpu_)
    if (const int64_t budget = budget_bytes(run); budget <= limit) {
      limit = budget;
      if (run.purpose() == Purpose::training) slowdown_ = INFINITY;
    }
  std::map<int64_t, int64_t> seen;
  int64_t fits = 0, fails = most_ + 1;
  const auto look = [&](int64_t batch) {
    seen[batch] = bytes(run.with([&](Config& c) { set_batch(c, run.purpose(), batch); }));
    if (seen[batch] <= limit) {
      fits = std::max(fits, batch);
    } else {
      fails = std::min(fails, batch);
    }
  };
  for (const auto& [key, entry] : known_)
    if (const auto& [accumulate, evaluated, batch] = key;
        accumulate == run.config().train.accumulate && batch > fits && batch < fails)
      look(batch);
  if (seen.empty()) look(std::clamp<int64_t>(images_of(run), 1, most_)), --compile;
  for (int64_t round = 0; fails - fits > 1; ++round, --compile) {
    if (compile <= 0) return {fits, false};
    int64_t next = guess(seen, fits, fails, limit);
    // Bisect if interpolation does not converge.
    if (round % 4 == 3 && (fits == 0 || fails <= most_)) next = fits + (fails - fits) / 2;
    look(std::clamp(next, fits + 1, fails - 1));
  }
  return {fits, true};
}

int64_t largest_batch(const Run& run, int64_t limit) {
  const Run limited = run.with([&](Config& c) { c.memory.limit = ByteSize{limit}; });
  return BatchSearch(limited).largest(limited, limit).batch;
}

}  // namespace tessera
