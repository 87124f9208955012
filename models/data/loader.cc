#include "tessera/models/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "tessera/models/data/images/picture.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/exchange/part_tree.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

// The share of a process in an epoch of `count` samples.
struct Shares {
  int64_t count, batch;
  int rank, world;
  int64_t parts;
  bool drop_last;

  int64_t batches() const { return count / batch + (!drop_last && count % batch > 0 ? 1 : 0); }
  // Positions in the epoch's order, of all processes and of this one.
  PartRange all(int64_t index) const {
    return {index * batch, std::min((index + 1) * batch, count)};
  }
  PartRange range(int64_t index) const {
    const auto [first, last] = all(index);
    const int64_t cut = std::min(parts, last - first);
    const PartRange own = images_of_parts(last - first, cut, parts_of_rank(cut, rank, world));
    return {first + own.first, first + own.last};
  }
  // The most images of this process in a batch; the last one may have a larger share.
  int64_t largest() const {
    int64_t most = 0;
    for (const int64_t index : {int64_t{0}, batches() - 1})
      if (index >= 0) most = std::max(most, range(index).count());
    return most;
  }
  int64_t largest_of_all() const { return std::min(batch, count); }
};

Shares shares_of(int64_t count, const LoaderOptions& o) {
  return {count, o.batch, o.rank, o.world, o.parts, o.drop_last};
}

// The layout of the block, in bytes: slots, each with images, labels, samples and, if images are
// mixed, partners and shares; then the scratch buffers.
struct BlockPlan {
  size_t slots, images, labels, samples, mixes, scratch_stride, scratches;
  size_t bytes() const {
    return slots * (images + labels + samples + 2 * mixes) + scratches * scratch_stride;
  }
};

// An image is mixed with the next one, which may be another process's.
int64_t images_read_besides(const LoaderOptions& options) {
  return options.mix.any() && options.world > 1 ? 1 : 0;
}

BlockPlan block_plan(const ImageShape& read_shape, const Shares& shares,
                     const LoaderOptions& options) {
  const ImageShape shape = output_shape(options.augment, read_shape);
  const auto most = static_cast<size_t>(shares.largest() + images_read_besides(options));
  BlockPlan plan{};
  plan.slots = static_cast<size_t>(options.held) +
               (options.workers == 0 ? 0 : static_cast<size_t>(options.prefetch));
  plan.images = round_to_alignment(most * static_cast<size_t>(shape.bytes()));
  plan.labels = round_to_alignment(static_cast<size_t>(shares.largest_of_all()) * sizeof(int32_t));
  plan.samples = round_to_alignment(most * sizeof(int64_t));
  plan.mixes = options.mix.any() ? round_to_alignment(most * sizeof(float)) : 0;
  int64_t scratch = 0;
  if (!options.augment.empty()) scratch = scratch_bytes(options.augment, read_shape);
  if (plan.mixes > 0) scratch = std::max(scratch, shape.bytes());
  plan.scratch_stride = round_to_alignment(static_cast<size_t>(scratch));
  plan.scratches = static_cast<size_t>(std::max(1, options.workers));
  return plan;
}

// Returns the bytes that the augmentation keeps, summed over the threads.
size_t kept_bytes(ImageShape shape, const LoaderOptions& options) {
  const auto threads = static_cast<size_t>(std::max(1, options.workers));
  size_t kept = 0;
  for (const TransformPtr& step : options.augment) {
    kept += threads * step->thread_bytes(shape);
    shape = step->output(shape);
  }
  return kept;
}

// Returns the memory of a loader, which is known before it is made and does not change.
std::vector<MemoryItem> buffers_of(const std::string& data, const ImageShape& image, int64_t count,
                                   const LoaderOptions& options) {
  const Shares shares = shares_of(count, options);
  std::vector<MemoryItem> buffers;
  const auto add = [&](const char* part, size_t bytes) {
    if (bytes > 0) buffers.push_back({"loader of " + data + ": " + part, bytes});
  };
  add("batches", block_plan(image, shares, options).bytes());
  if (options.shuffle)
    add("order", static_cast<size_t>(count) * sizeof(int64_t) * (options.balanced ? 2 : 1));
  add("augmentation", kept_bytes(image, options));
  return buffers;
}

void check(const Dataset& dataset, const LoaderOptions& options) {
  auto need = [](bool holds, const std::string& text) {
    if (!holds) throw ConfigError("loader: " + text);
  };
  constexpr int kMaxAhead = 4096, kMaxHeld = 64, kMaxWorld = 1 << 20;
  auto within = [&](const char* name, int64_t value, int64_t low, int64_t high) {
    need(value >= low && value <= high,
         fmt::format("{} is {}, but must be in [{}, {}]", name, value, low, high));
  };
  within("batch", options.batch, 1, kMaxBatch);
  within("workers", options.workers, 0, kMaxWorkers);
  within("prefetch", options.prefetch, 1, kMaxAhead);
  within("held", options.held, 1, kMaxHeld);
  within("world", options.world, 1, kMaxWorld);
  within("shuffle_window", options.shuffle_window, 0, INT64_MAX);
  within("rank", options.rank, 0, options.world - 1);
  within("parts", options.parts, options.world, kMaxBatch);
  check_mix(options.mix);
  const Shares shares = shares_of(dataset.count(), options);
  need(shares.batches() > 0,
       fmt::format(
           "{} has {} images, too few{}", dataset.name(), dataset.count(),
           options.drop_last
               ? fmt::format(" with batches of {} if an incomplete batch is dropped", options.batch)
               : ""));
  const int64_t last = shares.all(shares.batches() - 1).count();
  need(last >= options.world,
       fmt::format("the last batch of an epoch has {} image(s), too few for {} processes", last,
                   options.world));
}

}  // namespace

// Batches are numbered from the last start_epoch(); batch n is in slot n % slots. Always
// released_ <= taken_ <= claimed_ <= released_ + slots.
struct Loader::Impl {
  struct Slot {
    uint8_t* images;
    int32_t* labels;
    int64_t* samples;
    int32_t* partners;
    float* shares;
    Batch batch;
    bool ready = false;
    std::exception_ptr error;
  };

  Impl(std::shared_ptr<const Dataset> data, LoaderOptions opts, RawMemory& mem)
      : dataset_(std::move(data)),
        options_(std::move(opts)),
        shares_(shares_of(dataset_->count(), options_)),
        read_shape_(dataset_->shape()),
        shape_(output_shape(options_.augment, read_shape_)),
        memory_(mem) {
    if (options_.shuffle) order_.resize(static_cast<size_t>(dataset_->count()));
    if (options_.shuffle && options_.balanced) group_by_class();
    cut_block();
  }

  // Keeps the order of the samples of a class.
  void group_by_class() {
    by_class_.resize(order_.size());
    std::iota(by_class_.begin(), by_class_.end(), 0);
    std::ranges::sort(by_class_, [&](int64_t a, int64_t b) {
      const int64_t of_a = dataset_->label(a), of_b = dataset_->label(b);
      return of_a != of_b ? of_a < of_b : a < b;
    });
    for (size_t i = 0; i < by_class_.size(); ++i)
      if (i == 0 || dataset_->label(by_class_[i]) != dataset_->label(by_class_[i - 1]))
        class_starts_.push_back(i);
    class_starts_.push_back(by_class_.size());
  }

  void cut_block() {
    const BlockPlan plan = block_plan(read_shape_, shares_, options_);
    const auto& [slots, images, labels, samples, mixes, stride, scratches] = plan;
    scratch_stride_ = stride;
    slots_.resize(slots);
    threads_.reserve(static_cast<size_t>(options_.workers));
    block_bytes_ = plan.bytes();
    // The last call that can throw.
    block_ = memory_.allocate(block_bytes_, "batches of the loader");
    auto* at = static_cast<uint8_t*>(block_);
    for (Slot& slot : slots_) {
      slot.images = at;
      slot.labels = reinterpret_cast<int32_t*>(at + images);
      slot.samples = reinterpret_cast<int64_t*>(at + images + labels);
      at += images + labels + samples;
      slot.partners = mixes > 0 ? reinterpret_cast<int32_t*>(at) : nullptr;
      slot.shares = mixes > 0 ? reinterpret_cast<float*>(at + mixes) : nullptr;
      at += 2 * mixes;
    }
    scratch_ = at;
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    claimable_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    memory_.release(block_, block_bytes_);
  }

  void start_workers() {
    for (int i = 0; i < options_.workers; ++i) {
      threads_.push_back(start_thread("the loader", "lower data.workers",
                                      [this, i] { work(scratch(static_cast<size_t>(i))); }));
    }
  }

  // Computes the order of an epoch from (seed, epoch) alone: Fisher-Yates from the identity.
  void order_epoch() {
    if (ordered_epoch_ == claim_epoch_) return;
    ordered_epoch_ = claim_epoch_;
    std::iota(order_.begin(), order_.end(), 0);
    RandomSequence random(random_key(options_.seed, "shuffle"),
                          static_cast<uint64_t>(claim_epoch_));
    if (options_.balanced) {
      for (int64_t& sample : order_) {
        const size_t kind = random.below(class_starts_.size() - 1);
        const size_t first = class_starts_[kind], count = class_starts_[kind + 1] - first;
        sample = by_class_[first + random.below(count)];
      }
      return;
    }
    auto window = static_cast<uint64_t>(options_.shuffle_window);
    if (window > 0 && window < order_.size()) {
      for (size_t i = 0; i < order_.size(); ++i)
        std::swap(order_[i], order_[i + random.below(std::min(window, order_.size() - i))]);
      return;
    }
    for (size_t left = order_.size(); left > 1; --left)
      std::swap(order_[left - 1], order_[random.below(left)]);
  }

  // Claims the next batch and sets its samples. Requires the lock.
  Slot& claim() {
    Slot& slot = slots_[claimed_++ % slots_.size()];
    const auto [begin, end] = shares_.range(claim_index_);
    const auto [first, after] = shares_.all(claim_index_);
    if (options_.shuffle) order_epoch();
    const auto sample = [&](int64_t at) {
      return options_.shuffle ? order_[static_cast<size_t>(at)] : at;
    };
    for (int64_t at = begin; at < end; ++at) slot.samples[at - begin] = sample(at);
    for (int64_t i = 0; i < images_read_besides(options_); ++i)
      slot.samples[end - begin] = sample(end < after ? end : first);
    if (end - begin < after - first)  // else fill() reads them, with the images
      for (int64_t at = first; at < after; ++at)
        slot.labels[at - first] = static_cast<int32_t>(dataset_->label(sample(at)));
    bool last = claim_index_ + 1 == shares_.batches();
    slot.batch = {.images = slot.images,
                  .labels = slot.labels + (begin - first),
                  .all_labels = slot.labels,
                  .samples = slot.samples,
                  .partners = slot.partners,
                  .shares = slot.shares,
                  .count = end - begin,
                  .all = after - first,
                  .epoch = claim_epoch_,
                  .index = claim_index_,
                  .first = first,
                  .last = last};
    slot.ready = false;
    slot.error = nullptr;
    claim_index_ = last ? 0 : claim_index_ + 1;
    if (last) ++claim_epoch_;
    return slot;
  }

  // Makes the batch. Called without the lock; takes it at the end.
  void fill(Slot& slot, uint8_t* scratch) {
    const Batch& batch = slot.batch;
    std::exception_ptr error;
    double read = 0, decode = 0, augment = 0, mix = 0;
    try {
      const AugmentKey key{options_.seed, batch.epoch};
      const bool plain = options_.augment.empty(), part = reads_parts(*dataset_, options_.augment);
      int32_t label_besides = 0;
      int32_t* labels = slot.labels + (batch.labels - batch.all_labels);
      for (int64_t i = 0; i < batch.count + images_read_besides(options_); ++i) {
        int64_t sample = batch.samples[i];
        uint8_t* image = slot.images + i * shape_.bytes();
        auto start = Clock::now();
        const double files = file_seconds();
        ImageShape shape = read_shape_;
        if (part)
          shape = read_framed(*dataset_, options_.augment, key, sample, scratch);
        else
          dataset_->read(sample, plain ? image : scratch);
        (i < batch.count ? labels[i] : label_besides) =
            static_cast<int32_t>(dataset_->label(sample));
        const double took = seconds_since(start);
        const double file = dataset_->has_own_sizes() ? file_seconds() - files : took;
        read += file;
        decode += took - file;
        if (plain) continue;
        start = Clock::now();
        augment_image(options_.augment, key, sample, shape, scratch, image, part ? 1 : 0);
        augment += seconds_since(start);
      }
      if (options_.mix.any()) {
        auto start = Clock::now();
        const uint8_t* next = slot.images + batch.count * shape_.bytes();
        if (images_read_besides(options_) == 0) {
          std::copy_n(slot.images, shape_.bytes(), scratch);
          next = scratch, label_besides = labels[0];
        }
        mix_batch(options_.mix, key, shape_, batch.count, batch.samples, batch.labels, slot.images,
                  slot.partners, slot.shares, next, label_besides);
        mix += seconds_since(start);
      }
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    slot.error = error;
    slot.ready = true;
    times_.read += read;
    times_.decode += decode;
    times_.augment += augment;
    times_.mix += mix;
  }

  void work(uint8_t* scratch) {
    std::unique_lock lock(mutex_);
    for (;;) {
      claimable_.wait(lock, [&] { return stop_ || may_claim(); });
      if (stop_) return;
      Slot& slot = claim();
      ++in_hand_;
      lock.unlock();
      fill(slot, scratch);
      lock.lock();
      --in_hand_;
      progress_.notify_all();
    }
  }

  const Batch& next() {
    std::unique_lock lock(mutex_);
    // Releases the batches that become invalid.
    const auto held = static_cast<uint64_t>(options_.held) - 1;
    if (released_ + held < taken_) {
      released_ = taken_ - held;
      claimable_.notify_one();
    }
    Slot& slot = slots_[taken_ % slots_.size()];
    auto start = Clock::now();
    if (options_.workers == 0) {
      if (claimed_ == taken_) {  // else it has failed already
        claim();
        lock.unlock();
        fill(slot, scratch(0));
        lock.lock();
      }
    } else {
      progress_.wait(lock, [&] { return claimed_ > taken_ && slot.ready; });
    }
    times_.wait += seconds_since(start);
    if (slot.error) std::rethrow_exception(slot.error);
    ++taken_;
    next_index_ = slot.batch.last ? 0 : next_index_ + 1;
    if (slot.batch.last) ++next_epoch_;
    return slot.batch;
  }

  void restart(int64_t epoch, int64_t index) {
    std::unique_lock lock(mutex_);
    bool failed = claimed_ > taken_ && slots_[taken_ % slots_.size()].error;
    if (epoch == next_epoch_ && index == next_index_ && !failed) return;
    paused_ = true;
    progress_.wait(lock, [&] { return in_hand_ == 0; });
    released_ = taken_ = claimed_ = 0;
    claim_epoch_ = next_epoch_ = epoch;
    claim_index_ = next_index_ = index;
    paused_ = false;
    claimable_.notify_all();
  }

  bool may_claim() const { return !paused_ && claimed_ < released_ + slots_.size(); }
  uint8_t* scratch(size_t worker) { return scratch_ + worker * scratch_stride_; }

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const Shares shares_;
  const ImageShape read_shape_, shape_;
  RawMemory& memory_;

  void* block_ = nullptr;  // all slots, then a scratch buffer for each worker
  size_t block_bytes_ = 0, scratch_stride_ = 0;
  uint8_t* scratch_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<int64_t> order_;  // order of the epoch being claimed; empty without shuffle
  int64_t ordered_epoch_ = -1;
  std::vector<int64_t> by_class_;     // balanced: the samples, grouped by class
  std::vector<size_t> class_starts_;  // in by_class_, non-empty classes only; then its end

  mutable std::mutex mutex_;  // guards all members below, and slots from claim to ready
  std::condition_variable claimable_, progress_;
  uint64_t released_ = 0, taken_ = 0, claimed_ = 0;
  int64_t claim_epoch_ = 0, claim_index_ = 0;  // position of batch number claimed_
  int64_t next_epoch_ = 0, next_index_ = 0;    // position of batch number taken_
  int in_hand_ = 0;                            // batches that workers are filling
  bool paused_ = false, stop_ = false;
  LoaderTimes times_;
  std::vector<std::thread> threads_;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, RawMemory& memory) {
  if (!dataset) throw ConfigError("loader: the data set must not be null");
  check(*dataset, options);
  impl_ = std::make_unique<Impl>(std::move(dataset), std::move(options), memory);
  impl_->start_workers();
}

Loader::~Loader() = default;

const Batch& Loader::next() { return impl_->next(); }

void Loader::start_epoch(int64_t epoch, int64_t index) {
  if (epoch < 0 || index < 0 || index >= batches()) {
    throw Error(
        fmt::format("loader: epoch {}, batch {} does not exist; epochs begin at 0 and have "
                    "{} batches",
                    epoch, index, batches()));
  }
  impl_->restart(epoch, index);
}

int64_t Loader::batches() const { return impl_->shares_.batches(); }

int64_t Loader::samples() const { return impl_->shares_.all(batches() - 1).last; }

const ImageShape& Loader::shape() const { return impl_->shape_; }
const Dataset& Loader::dataset() const { return *impl_->dataset_; }
const LoaderOptions& Loader::options() const { return impl_->options_; }

LoaderTimes Loader::times() const {
  std::lock_guard lock(impl_->mutex_);
  return impl_->times_;
}

int64_t Loader::bytes() const { return total_bytes(host_buffers()); }

int64_t Loader::planned_bytes(const ImageShape& image, int64_t count,
                              const LoaderOptions& options) {
  return total_bytes(buffers_of("", image, count, options));
}

std::vector<MemoryItem> Loader::host_buffers() const {
  const Dataset& data = *impl_->dataset_;
  return buffers_of(data.name(), data.shape(), data.count(), impl_->options_);
}

}  // namespace tessera
