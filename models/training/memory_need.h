// What a training, an evaluation or a timing will ask of the machine, byte for byte, and the batch
// that fits a number of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/graph/plan_report.h"
#include "tessera/models/training/run_steps.h"

namespace tessera {

// Everything of some size that will be asked for: persistent values, slots, the arena, the loaders'
// batches, the data set and the checkpoint.
struct MemoryNeed {
  std::vector<HostBuffer> blocks;      // of the host's memory
  std::vector<HostBuffer> gpu_blocks;  // of the GPU's, where it runs on one
  PlanReport report;          // of the training step, for an evaluation of the evaluation step
  bool complete = true;       // false: opening the data may tell of more
  int64_t bytes() const;      // of the host
  int64_t gpu_bytes() const;  // of the GPU
};

// Of a session whose steps are all prepared, in graph mode. With the need of opened data it is
// exact: what is asked for then is this, to the byte.
MemoryNeed memory_need(Session& session, const Config& config, const DataNeed& data,
                       Purpose purpose);
// The same before there is a session: one is prepared for it, in graph mode even where config.mode
// is eager, and takes no memory for tensors. Throws what prepared_session() does.
MemoryNeed memory_need(const Config& config, const DataNeed& data,
                       Purpose purpose = Purpose::training, const CompileOptions& options = {});
MemoryNeed memory_need(const Config& config, Purpose purpose = Purpose::training);

// Sets the key that the steps of such a run have their images from: data.batch, of an evaluation
// eval.batch.
void set_batch(Config& config, Purpose purpose, int64_t images);

// Finds batches that fit. Keeps what it compiled for each batch and train.accumulate, so that other
// settings of checkpoints and loaders are nearly free.
class BatchSearch {
 public:
  // Of the host's memory, or of the GPU's.
  BatchSearch(const DataNeed& data, Purpose purpose, bool on_gpu = false);
  // Of what a training needs with memory.budget: the least with which a step takes at most so much
  // more time (budget_curve.h).
  BatchSearch(const DataNeed& data, double slowdown, bool on_gpu);
  ~BatchSearch();

  struct Need {
    int64_t bytes = 0, gpu_bytes = 0;  // those of memory_need(), without a memory.budget
    int64_t arena = 0;                 // bytes, where the steps run
    double time = 0;                   // nanoseconds of an image in the first step, estimated
    bool has_statistics = false;       // of batch norms
    int64_t nodes = 0;                 // of that step
  };
  // Plans `config`. The configurations asked for may differ in the batch, train.accumulate, the
  // budget, data.read_ahead, data.workers and checkpoint.keep, in nothing else.
  Need need(const Config& config);

  struct Found {
    int64_t batch = 0;   // 0: not even one image fits
    bool exact = false;  // one image more does not fit, or there is none; false: there may be room
  };
  // The largest data.batch with which `config` needs at most `limit` bytes, no more than the data
  // set has images. Compiles for at most `compile` batches.
  Found largest(const Config& config, int64_t limit, int64_t compile = INT64_MAX);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The largest data.batch whose training needs at most `limit` bytes, with memory.limit set to that
// (a checkpoint holds the configuration, and so its text); 0 when not even one image fits.
int64_t largest_batch(const Config& config, int64_t limit);
// The same with memory.budget set to it, where a step may take so much more time (0.05: 5 %), of
// the memory that the steps run in.
int64_t largest_batch_within(const Config& config, int64_t budget, double slowdown);
// The largest data.batch of which what has to stand on the GPU needs at most `bytes`.
int64_t largest_batch_on_gpu(const Config& config, int64_t bytes);

}  // namespace tessera
