#include "tessera/runtime/data/pipeline.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

namespace {

constexpr int kMaxAutoWorkers = 16, kMaxAutoBatches = 16;
constexpr int64_t kMaxAutoBytes = int64_t{256} << 20;  // of batches read ahead

class FunctionTransform : public Transform {
 public:
  FunctionTransform(std::string name, Pipeline::Function function)
      : name_(std::move(name)), function_(std::move(function)) {
    if (!function_) throw ConfigError("pipeline: map '" + name_ + "' has no function");
  }
  std::string describe() const override { return name_; }
  void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
             RandomSequence& random) const override {
    function_(shape, in, out, random);
  }

 private:
  std::string name_;
  Pipeline::Function function_;
};

int auto_workers() { return std::min(available_cores(), kMaxAutoWorkers); }

int64_t batch_bytes(const Dataset& data, const LoaderOptions& options) {
  return std::min(options.batch, data.count()) *
         output_shape(options.augment, data.shape()).bytes();
}

// Two for each worker, as far as memory allows.
int auto_read_ahead(const Dataset& data, const LoaderOptions& options, int workers) {
  int64_t fit = kMaxAutoBytes / std::max<int64_t>(batch_bytes(data, options), 1);
  int wanted = std::clamp(2 * workers, 2, kMaxAutoBatches);
  return static_cast<int>(std::clamp<int64_t>(fit, 1, wanted));
}

}  // namespace

Pipeline::Pipeline(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {
  if (!dataset_) throw ConfigError("pipeline: a data set is needed, null is given");
  options_.workers = options_.read_ahead = kAuto;
}

Pipeline Pipeline::shuffle(int64_t window, uint64_t seed) const {
  Pipeline next = *this;
  next.options_.shuffle = true;
  next.options_.shuffle_window = window;
  next.options_.seed = seed;
  return next;
}

Pipeline Pipeline::map(TransformPtr step, MapOptions options) const {
  return map(Transforms{std::move(step)}, options);
}

Pipeline Pipeline::map(const Transforms& steps, MapOptions options) const {
  Pipeline next = *this;
  next.options_.augment.insert(next.options_.augment.end(), steps.begin(), steps.end());
  next.options_.workers = std::max(next.options_.workers, options.parallel);
  return next;
}

Pipeline Pipeline::map(std::string name, Function function, MapOptions options) const {
  return map(std::make_shared<FunctionTransform>(std::move(name), std::move(function)), options);
}

Pipeline Pipeline::mix(const Mix& mix) const {
  Pipeline next = *this;
  next.options_.mix = mix;
  return next;
}

Pipeline Pipeline::batch(int64_t images, bool drop_last) const {
  Pipeline next = *this;
  next.options_.batch = images;
  next.options_.drop_last = drop_last;
  return next;
}

Pipeline Pipeline::shard(int index, int count) const {
  Pipeline next = *this;
  next.options_.rank = index;
  next.options_.world = count;
  return next;
}

Pipeline Pipeline::prefetch(int batches) const {
  Pipeline next = *this;
  next.options_.read_ahead = batches;
  return next;
}

LoaderOptions Pipeline::options() const {
  LoaderOptions options = options_;
  if (options.workers == kAuto) options.workers = auto_workers();
  if (options.read_ahead == kAuto)
    options.read_ahead = auto_read_ahead(*dataset_, options, options.workers);
  return options;
}

std::string Pipeline::describe() const {
  const LoaderOptions chosen = options();
  std::string text = dataset_->name();
  if (chosen.shuffle)
    text += fmt::format(" | shuffle {}, seed {}",
                        chosen.shuffle_window == 0 ? "all" : fmt::to_string(chosen.shuffle_window),
                        chosen.seed);
  for (const TransformPtr& step : chosen.augment) text += " | " + step->describe();
  if (chosen.mix.any()) text += " | " + chosen.mix.describe();
  text += fmt::format(" | batch {}", chosen.batch);
  if (chosen.world > 1) text += fmt::format(" | part {} of {}", chosen.rank, chosen.world);
  text += fmt::format(" | {} worker{}", chosen.workers, chosen.workers == 1 ? "" : "s");
  if (options_.workers == kAuto)
    text += fmt::format(" (auto: {} cores, at most {})", available_cores(), kMaxAutoWorkers);
  text += fmt::format(" | prefetch {}", chosen.read_ahead);
  if (options_.read_ahead == kAuto)
    text += fmt::format(
        " (auto: 2 for each worker, at most {} and {} MiB; {:.1f} MiB)", kMaxAutoBatches,
        kMaxAutoBytes >> 20,
        static_cast<double>(chosen.read_ahead * batch_bytes(*dataset_, chosen)) / (1 << 20));
  return text;
}

std::unique_ptr<Loader> Pipeline::start(RawMemory& memory) const {
  auto loader = std::make_unique<Loader>(dataset_, options(), memory);
  if (log_enabled(LogLevel::info)) log(LogLevel::info, "pipeline: " + describe());
  return loader;
}

}  // namespace tessera
