// BatchSearch: finds the largest batch with which a run fits into a number of bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "tessera/engine/tensor.h"
#include "tessera/models/training/run.h"

namespace tessera {

// Sets the key that decides the batch of such a run: data.batch, or eval.batch for an evaluation.
void set_batch(Config& config, Purpose purpose, int64_t images);

// Searches for batches that fit. Caches the compiled result for each batch and train.accumulate, so
// other settings of checkpoints and loaders cost almost nothing.
class BatchSearch {
 public:
  // Uses the data and the purpose of `run`, and counts host memory or that of the GPU.
  explicit BatchSearch(const Run& run, bool on_gpu = false);
  // Counts instead the smallest memory.budget with which a step of the training takes at most
  // `slowdown` more time (min_budget()).
  BatchSearch(const Run& run, double slowdown, bool on_gpu);

  struct Need {
    int64_t bytes = 0, gpu_bytes = 0;  // memory_need() without a memory.budget
    int64_t arena = 0;                 // bytes, on the device of the steps
    double time = 0;                   // estimated nanoseconds per image in the first step
    bool has_statistics = false;       // the model has buffers, such as those of batch norm
    int64_t nodes = 0;                 // in the first step
  };
  // Plans `run`. All runs passed to one BatchSearch may differ only in the batch, train.accumulate,
  // the budget, data.prefetch, data.workers and checkpoint.keep.
  Need need(const Run& run);

  struct Found {
    int64_t batch = 0;   // 0: not even one image fits
    bool exact = false;  // true: batch + 1 does not fit, or the data end; false: more may fit
  };
  // Returns the largest data.batch, at most all images of the data set, with which `run` needs at
  // most `limit` bytes. Compiles for at most `compile` batches.
  Found largest(const Run& run, int64_t limit, int64_t compile = INT64_MAX);

 private:
  struct Fixed {  // the part of the need that does not depend on loaders and checkpoints
    Need need;
    Tensors tensors;
  };
  const Fixed& fixed(const Run& run);
  int64_t bytes(const Run& run);

  const bool on_gpu_;
  std::optional<double> slowdown_;
  const int64_t most_;
  // Keys: train.accumulate, the batch of evaluations if one is set, and the batch.
  std::map<std::tuple<int, int64_t, int64_t>, Fixed> known_ = {};
};

// Returns the largest data.batch whose training needs at most `limit` bytes; 0 if not even one
// image fits. Sets memory.limit to `limit`, because a checkpoint holds the text of the
// configuration.
int64_t largest_batch(const Run& run, int64_t limit);

}  // namespace tessera
