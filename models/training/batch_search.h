// BatchSearch: the batch with which a run fits a number of bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "tessera/engine/tensor.h"
#include "tessera/models/training/run.h"

namespace tessera {

// Sets the key that the steps of such a run have their images from: data.batch, of an evaluation
// eval.batch.
void set_batch(Config& config, Purpose purpose, int64_t images);

// Finds batches that fit. Keeps what it compiled for each batch and train.accumulate, so that other
// settings of checkpoints and loaders are nearly free.
class BatchSearch {
 public:
  // Of the data and the purpose of `run`; of the host's memory, or of the GPU's.
  explicit BatchSearch(const Run& run, bool on_gpu = false);
  // Of what a training needs with memory.budget: the least with which a step takes at most so much
  // more time (least_budget()).
  BatchSearch(const Run& run, double slowdown, bool on_gpu);

  struct Need {
    int64_t bytes = 0, gpu_bytes = 0;  // those of memory_need(), without a memory.budget
    int64_t arena = 0;                 // bytes, where the steps run
    double time = 0;                   // nanoseconds of an image in the first step, estimated
    bool has_statistics = false;       // of batch norms
    int64_t nodes = 0;                 // of that step
  };
  // Plans `run`. The runs asked for may differ in the batch, train.accumulate, the budget,
  // data.read_ahead, data.workers and checkpoint.keep, in nothing else.
  Need need(const Run& run);

  struct Found {
    int64_t batch = 0;   // 0: not even one image fits
    bool exact = false;  // one image more does not fit, or there is none; false: there may be room
  };
  // The largest data.batch with which `run` needs at most `limit` bytes, no more than the data set
  // has images. Compiles for at most `compile` batches.
  Found largest(const Run& run, int64_t limit, int64_t compile = INT64_MAX);

 private:
  struct Fixed {  // what does not change with loaders and checkpoints
    Need need;
    Tensors tensors;
  };
  const Fixed& fixed(const Run& run);
  int64_t bytes(const Run& run);

  const bool on_gpu_;
  std::optional<double> slowdown_;
  const int64_t most_;
  // By train.accumulate, the batch of evaluations where one is set, and the batch.
  std::map<std::tuple<int, int64_t, int64_t>, Fixed> known_ = {};
};

// The largest data.batch whose training needs at most `limit` bytes, with memory.limit set to that
// (a checkpoint holds the configuration, and so its text); 0 when not even one image fits.
int64_t largest_batch(const Run& run, int64_t limit);

}  // namespace tessera
