#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/arena_budget.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/run/profile_costs.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

namespace {

using Changes = Remedy::Changes;
using Need = BatchSearch::Need;

constexpr size_t kLines = 4;  // per kind of change

// A setting that needs less memory and changes no learned bit. `price` is a fixed cost, because the
// time of loading and the value of a checkpoint are not estimated.
struct Saving {
  const char* words;
  double price;
  const char* remark;
  void (*make)(Config&);
};

constexpr Saving kSavings[] = {
    {"", 0, "", [](Config&) {}},
    {" data.prefetch=1", 0.01, "", [](Config& c) { c.data.prefetch = 1; }},
    {" data.workers=0", 0.05, "; loads between steps", [](Config& c) { c.data.workers = 0; }},
    {" checkpoint.keep=0", 0.1, "; nothing to resume from",
     [](Config& c) { c.checkpoint.keep = 0; }},
    {" checkpoint.keep=0 data.prefetch=1", 0.11, "; nothing to resume from",
     [](Config& c) { c.checkpoint.keep = 0, c.data.prefetch = 1; }},
    {" checkpoint.keep=0 data.workers=0", 0.15, "; nothing to resume from, loads between steps",
     [](Config& c) { c.checkpoint.keep = 0, c.data.workers = 0; }},
};

class Search {
 public:
  Search(const Run& run, int64_t limit, bool on_gpu, double seconds)
      : run_(run.as(run.purpose(), run.data_need()).with([](Config& config) {
          config.mode = Mode::kGraph;  // the memory of eager steps cannot be predicted
        })),
        limit_(limit),
        on_gpu_(on_gpu),
        seconds_(seconds),
        search_(run_, on_gpu) {
    if (run.config().mode == Mode::kEager) mode_ = "mode=graph";
    now_ = search_.need(run_);
    of_a_plan_ = elapsed();
    if (training() && run_.config().eval.batch > 0) {
      // Evaluations use the batch of a part, as they do by default.
      Run other = run_.with([](Config& config) { config.eval.batch = 0; });
      if (const Need less = search_.need(other); there(less) < there(now_)) {
        run_ = std::move(other), now_ = less;
        mode_ += mode_.empty() ? "eval.batch=0" : " eval.batch=0";
      }
    }
    const RunSteps steps = run_.steps();
    batch_ = steps.train.empty() ? steps.evaluation.front() : steps.train.front();
    std::set<int64_t> saved;  // savings: an equal one is already set
    for (const Saving& saving : kSavings) {
      const int64_t less = there(now_) - there(search_.need(run_.with(saving.make)));
      if (less >= 0 && saved.insert(less).second) savings_.push_back(&saving);
    }
    max_saved_ = *saved.rbegin();
  }

  std::vector<Remedy> find() {
    // A saving that is enough alone is not combined with others.
    std::erase_if(savings_, [&](const Saving* saving) {
      const auto has = [&](const Remedy& alone) {
        const std::string word = alone.overrides.substr(alone.overrides.rfind(' ') + 1);
        return std::string_view(saving->words).find(word) != std::string_view::npos;
      };
      const bool enough = fits(now_) && !found_.empty();
      return enough || std::ranges::any_of(found_, has) ||
             offer(*saving, "", Changes::nothing, [](Config&) {});
    });
    if (fits(now_)) return std::move(found_);
    if (training()) find_budgets();
    if (!evaluation()) find_parts();
    find_batches();
    std::ranges::stable_sort(found_, {},
                             [](const Remedy& r) { return std::tuple(r.changes, r.price); });
    size_t same = 0;
    Changes last = Changes::nothing;
    std::erase_if(found_, [&](const Remedy& remedy) {
      if (std::exchange(last, remedy.changes) != remedy.changes) same = 0;
      return ++same > kLines;
    });
    return std::move(found_);
  }

 private:
  bool training() const { return run_.purpose() == Purpose::training; }
  bool evaluation() const { return run_.purpose() == Purpose::evaluation; }
  double elapsed() const { return seconds_since(start_); }
  // Returns the number of plans, as large as the one that does not fit, that the time allows.
  double plans_left() const { return (seconds_ - elapsed()) / of_a_plan_; }
  int64_t there(const Need& need) const { return on_gpu_ ? need.gpu_bytes : need.bytes; }
  bool fits(const Need& need) const {
    const MemoryConfig& memory = run_.config().memory;
    return there(need) <= limit_ && (!memory.limit || need.bytes <= memory.limit->bytes) &&
           (!memory.gpu_limit || need.gpu_bytes <= memory.gpu_limit->bytes);
  }

  // Adds a saving together with what `set` does to the configuration, if that fits.
  bool offer(const Saving& saving, const std::string& words, Changes changes, const auto& set) {
    const Run other = run_.with([&](Config& config) { saving.make(config), set(config); });
    const bool budgeted = words.starts_with("memory");
    const Need need = budgeted ? within_budget(other) : search_.need(other);
    if (!fits(need)) return false;
    std::string all = mode_ + (words.empty() ? "" : " ") + words + saving.words;
    std::string remark = saving.remark;
    all.erase(0, all.find_first_not_of(' '));
    if (all.empty()) return true;
    if (changes == Changes::sums && need.has_statistics)
      remark =
          fmt::format("; norms see {} images{}", batch_ / other.config().train.accumulate, remark);
    const double slowdown = need.time / now_.time - 1;
    found_.push_back({all, there(need), slowdown, slowdown + saving.price, changes, remark});
    return true;
  }

  // Returns the need of a training with the budget of `run`; more than the budget if no plan is
  // found.
  Need within_budget(const Run& run) {
    Need need = search_.need(run);
    CompileOptions options;
    options.arena_budget =
        std::max<int64_t>(run.config().memory.budget->bytes - there(need) + need.arena, 0);
    if (options.arena_budget < min_arena_) return need;
    try {
      const MemoryNeed planned = memory_need(*run.make_session(options), run);
      need.bytes = planned.bytes(), need.gpu_bytes = planned.gpu_bytes();
      need.time *= 1 + planned.report.budget.overhead();
    } catch (const BudgetTooSmall& error) {
      min_arena_ = error.minimum();
    }
    return need;
  }

  // Tries the whole limit as the budget, with each saving that may be worth its price; then smaller
  // budgets, which leave room for others.
  void find_budgets() {
    double best = INFINITY;
    const auto look = [&](const Saving& saving, int64_t bytes) {
      const ByteSize budget{bytes};
      if (bytes <= 0 || saving.price >= best || plans_left() < 3 ||
          !offer(saving, "memory.budget=" + budget.text(), Changes::nothing,
                 [&](Config& c) { c.memory.budget = budget; }))
        return;
      if (found_.back().price >= best) return found_.pop_back();
      best = found_.back().price;
    };
    const bool large = limit_ >= int64_t{1} << 30;  // rounds down to MiB: a short text
    for (const Saving* saving : savings_) look(*saving, large ? limit_ >> 20 << 20 : limit_);
    for (const int64_t eighths : {7, 6}) {
      best = INFINITY;
      look(kSavings[0], (limit_ / 8 * eighths) >> 20 << 20);
    }
  }

  // Tries each divisor of the batch until one fits without a saving. A step of k parts has k times
  // as many nodes, and its arena has at least 1 / k of the current bytes.
  void find_parts() {
    std::vector<const Saving*> open = savings_;
    const int64_t now = run_.config().train.accumulate, most = std::min<int64_t>(batch_, 4096);
    for (int64_t parts = now + 1; parts <= most; ++parts) {
      if (batch_ % parts != 0) continue;
      if (there(now_) - now_.arena + now_.arena * now / parts - max_saved_ > limit_) continue;
      if (now_.nodes * parts / now * kPlanningBytes > std::max<int64_t>(limit_, 5 << 20) / 4 * 3 ||
          plans_left() < static_cast<double>(parts) / static_cast<double>(now))
        return;
      const auto offered = [&](const Saving* saving) {
        return offer(*saving, fmt::format("train.accumulate={}", parts), Changes::sums,
                     [&](Config& c) { c.train.accumulate = static_cast<int>(parts); });
      };
      if (offered(open.front())) return;
      std::erase_if(open, offered);
    }
  }

  // Tries the largest batch that fits, and the largest repeated half of the current batch that
  // fits; with a saving if that allows a larger batch.
  void find_batches() {
    const bool evaluated = evaluation();
    int64_t best = 0;
    for (const Saving* saving : savings_) {
      const Run other = run_.with(saving->make);
      const auto plans = static_cast<int64_t>(std::clamp(plans_left(), 6.0, 1e6));
      const int64_t most = search_.largest(other, limit_, plans).batch;
      int64_t half = batch_;
      while (half > std::max<int64_t>(most, 1)) half /= 2;
      for (const int64_t batch : {half, most})
        if (batch > best && (evaluated || batch >= run_.config().train.accumulate) &&
            offer(*saving, fmt::format("{}.batch={}", evaluated ? "eval" : "data", batch),
                  evaluated ? Changes::nothing : Changes::training,
                  [&](Config& c) { set_batch(c, run_.purpose(), batch); }))
          best = batch;
    }
  }

  Run run_;
  const int64_t limit_;
  const bool on_gpu_;
  const double seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double of_a_plan_ = 0;  // seconds
  BatchSearch search_;
  Need now_;
  std::string mode_;
  int64_t batch_ = 0;                   // in a step
  std::vector<const Saving*> savings_;  // those that reduce the need
  int64_t max_saved_ = 0, min_arena_ = 0;
  std::vector<Remedy> found_;
};

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

std::vector<Remedy> remedies(const Run& run, int64_t limit, bool on_gpu, double seconds) {
  return Search(run, limit, on_gpu, seconds).find();
}

std::string remedies_text(const Run& run, int64_t limit, bool on_gpu, double seconds) {
  constexpr const char* kChanges[] = {"same bits", "another sum", "another training"};
  std::string text;
  for (const Remedy& remedy : remedies(run, limit, on_gpu, seconds))
    text += fmt::format("  {:<46} {:>12} {:>+7.1f} % time  {}{}\n", remedy.overrides,
                        byte_text(remedy.bytes), 100 * remedy.slowdown,
                        kChanges[static_cast<size_t>(remedy.changes)], remedy.remark);
  if (!text.empty()) return text;
  // Each image takes some bytes, whatever the batch.
  const bool by_count = !on_gpu && total_bytes(loader_blocks(run)) > limit / 2;
  return fmt::format(
      "  nothing: not even a batch of one image, even without checkpoints and loader threads; use "
      "a smaller model or smaller images{}\n",
      by_count ? ", or fewer images with data.train_count and data.test_count" : "");
}

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

BatchSearch::BatchSearch(const Run& run, bool on_gpu, std::optional<double> slowdown)
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
