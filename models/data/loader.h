// Batches of images, made ready ahead of time by worker threads.
//
// Samples pass in the order of the data set, or shuffled by (seed, epoch). After the last batch of
// an epoch comes the first of the next, without end, so that reading ahead does not stop there.
// Each batch is a function of (data set, options, epoch, index): the number of workers and how far
// they read ahead change no bit of it. All memory is taken in the constructor; next() and
// start_epoch() allocate nothing.
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

// The most that LoaderOptions may ask for.
inline constexpr int64_t kMaxBatch = int64_t{1} << 24;
inline constexpr int kMaxWorkers = 256;

struct LoaderOptions {
  int64_t batch = 128;   // images per batch (of this process)
  bool shuffle = false;  // a new order each epoch, by (seed, epoch)
  // Shuffle: each sample is drawn from this many of those that are left, in the order of the data
  // set, so that a disk is read nearly in order; 0: from all.
  int64_t shuffle_window = 0;
  // Shuffle: each sample is of a class drawn with equal chances, and any of that class, drawn anew
  // each time; an epoch has as many as before, some of them more than once and some not at all.
  bool balanced = false;
  uint64_t seed = 1;        // of the order and of the augmentation
  int workers = 2;          // threads; 0: batches are made in the thread that calls next()
  int read_ahead = 4;       // batches ready or in the making besides those handed out, >= 1
  int held = 1;             // batches that stay valid at once, >= 1: the last ones handed out
  Transforms augment = {};  // empty for evaluation
  Mix mix = {};             // of images with each other, after augmentation
  bool drop_last = false;   // leave out the last batch of an epoch when it is not full
  // Process `rank` of `world`: all see the same order and each takes its part of every global batch
  // (world x batch samples); a last one that is not full is divided as evenly as can be.
  int rank = 0, world = 1;
};

// Points into the loader's buffers; valid until `held` later calls of next(), or one of
// start_epoch().
struct Batch {
  const uint8_t* images = nullptr;   // [count x H x W x C], 64-byte aligned
  const int32_t* labels = nullptr;   // [count]
  const int64_t* samples = nullptr;  // [count], indices in the data set
  // With mixing, else nullptr: the target is labels[i] with weight shares[i] and partners[i] with
  // weight 1 - shares[i].
  const int32_t* partners = nullptr;  // [count]
  const float* shares = nullptr;      // [count], in [0, 1]
  int64_t count = 0;                  // options.batch, or fewer in the last batch
  int64_t epoch = 0;                  // from 0
  int64_t index = 0;                  // of the batch in its epoch, from 0
  int64_t first = 0;  // place of its first sample in the epoch's order, all processes
  bool last = false;  // the last batch of its epoch
};

// Seconds since the loader was made.
struct LoaderTimes {
  double wait = 0;     // next() waited for a batch, or made it when there are no workers
  double read = 0;     // reading samples, summed over the workers
  double decode = 0;   // the same of pictures in files, from the file's bytes on
  double augment = 0;  // changing them, summed over the workers
  double mix = 0;      // mixing them with each other, summed over the workers
};

// To be used by one thread at a time.
class Loader {
 public:
  // Starts to read ahead at once, at epoch 0. The batches lie in one block of the given memory,
  // which must outlive the loader. Throws ConfigError for invalid options.
  Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options,
         RawMemory& memory = cpu_memory());
  ~Loader();  // at any time; waits for the workers to finish the batch in hand
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch. What went wrong while it was made is thrown here, and again by later calls
  // until start_epoch().
  const Batch& next();

  // Makes (epoch, index) the next batch, as after a resume. What was read ahead is kept if that was
  // next anyway, else dropped. Throws Error unless epoch >= 0 and index in [0, batches()).
  void start_epoch(int64_t epoch, int64_t index = 0);

  // bytes() of a loader for `count` images of that shape, before it is made.
  static int64_t planned_bytes(const ImageShape& image, int64_t count,
                               const LoaderOptions& options);

  int64_t batches() const;          // per epoch
  int64_t samples() const;          // per epoch, of this process
  const ImageShape& shape() const;  // of an image in a batch: after augmentation
  const Dataset& dataset() const;
  const LoaderOptions& options() const;

  LoaderTimes times() const;
  double wait_seconds() const { return times().wait; }
  int64_t bytes() const;                         // sum of host_buffers()
  std::vector<MemoryItem> host_buffers() const;  // of the loader; the data set's not included

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
