// Loader: batches of images, prefetched by worker threads.
//
// Samples come in the order of the data set, or shuffled by (seed, epoch). The last batch of an
// epoch is followed by the first of the next, without end, so that prefetching does not stop there.
// Each batch is a function of (data set, options, epoch, index): it does not depend on workers and
// prefetch. The constructor allocates all memory; next() and start_epoch() allocate nothing.
//
//   Loader loader(data.train, {.batch = 128, .shuffle = true, .augment = {crop(4)}});
//   for (int64_t i = 0; i < loader.batches(); ++i) use(loader.next());
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/models/data/augment/augment.h"
#include "tessera/models/data/augment/mix.h"
#include "tessera/models/data/dataset.h"
#include "tessera/runtime/raw_memory.h"

namespace tessera {

// Maxima of LoaderOptions.
inline constexpr int64_t kMaxBatch = int64_t{1} << 24;
inline constexpr int kMaxWorkers = 256;

struct LoaderOptions {
  int64_t batch = 128;   // images per batch, of all processes together
  bool shuffle = false;  // a new order each epoch, by (seed, epoch)
  // Shuffle: draws each sample from the next `shuffle_window` of those left, in the order of the
  // data set, so that a disk is read nearly in order; 0: from all.
  int64_t shuffle_window = 0;
  // Shuffle: draws a class uniformly, then one of its samples, with replacement. An epoch keeps its
  // length; some samples are in it more than once and some not at all.
  bool balanced = false;
  uint64_t seed = 1;        // seed of the order and of the augmentation
  int workers = 2;          // threads; 0: batches are made in the thread that calls next()
  int prefetch = 4;         // batches prefetched in addition to those handed out, >= 1
  int held = 1;             // last batches handed out that stay valid, >= 1
  Transforms augment = {};  // empty for evaluation
  Mix mix = {};             // mixing of images, after augmentation
  bool drop_last = false;   // leave out the last batch of an epoch if it is not full
  // Process `rank` of `world` takes its parts of every batch, which has `parts` parts (at least
  // `world`), or as many as it has images: parts [parts rank / world, parts (rank + 1) / world)
  // (runtime/exchange/part_tree.h).
  int rank = 0, world = 1, parts = 1;
};

// A batch in the loader's buffers. Valid until next() has been called `held` more times, or
// start_epoch() once.
struct Batch {
  const uint8_t* images = nullptr;      // [count x H x W x C], 64-byte aligned
  const int32_t* labels = nullptr;      // [count]
  const int32_t* all_labels = nullptr;  // [all], also those of other processes
  const int64_t* samples = nullptr;     // [count], indices in the data set
  // The mixed-in labels and the lambda of mixup; nullptr without mixing. The target is labels[i]
  // with weight shares[i] and partners[i] with weight 1 - shares[i].
  const int32_t* partners = nullptr;  // [count]
  const float* shares = nullptr;      // [count], in [0, 1]
  int64_t count = 0;                  // images, of this process
  int64_t all = 0;    // images of all processes: options.batch, or fewer in the last
  int64_t epoch = 0;  // from 0
  int64_t index = 0;  // index of the batch in its epoch, from 0
  int64_t first = 0;  // position of the first sample of all processes in the epoch's order
  bool last = false;  // the last batch of its epoch
};

// Seconds since the loader was made.
struct LoaderTimes {
  double wait = 0;     // next() waited for a batch or, without workers, made it
  double read = 0;     // reading samples, summed over the workers
  double decode = 0;   // decoding the bytes of picture files, summed over the workers
  double augment = 0;  // augmenting samples, summed over the workers
  double mix = 0;      // mixing samples, summed over the workers
};

// Not thread-safe.
class Loader {
 public:
  // Starts to prefetch at epoch 0. The batches are in one block of `memory`, which must outlive the
  // loader. Throws ConfigError for invalid options.
  Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options,
         RawMemory& memory = cpu_memory());
  ~Loader();  // waits for the workers to finish their current batches
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch. Throws the error that making it threw, also in later calls until
  // start_epoch().
  const Batch& next();

  // Makes (epoch, index) the next batch, as after a resume. Prefetched batches are kept if it was
  // next anyway, else dropped. Throws Error unless epoch >= 0 and index is in [0, batches()).
  void start_epoch(int64_t epoch, int64_t index = 0);

  // Returns bytes() of a loader for `count` images of this shape.
  static int64_t planned_bytes(const ImageShape& image, int64_t count,
                               const LoaderOptions& options);

  int64_t batches() const;          // per epoch
  int64_t samples() const;          // per epoch, of all processes
  const ImageShape& shape() const;  // shape of an image in a batch, after augmentation
  const Dataset& dataset() const;
  const LoaderOptions& options() const;

  LoaderTimes times() const;
  double wait_seconds() const { return times().wait; }
  int64_t bytes() const;                         // sum of host_buffers()
  std::vector<MemoryItem> host_buffers() const;  // without those of the data set

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
