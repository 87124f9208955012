// What a training, an evaluation or a timing will ask of the machine, byte for byte, and the batch
// that fits a number of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/plan_report.h"
#include "tessera/models/config/config.h"
#include "tessera/runtime/data/dataset.h"

namespace tessera {

enum class Purpose {
  training,
  evaluation,  // of a run folder: evaluation steps, their loader and the data
  timing,      // a training step on generated batches: no loader, no data, no checkpoint
};
const char* purpose_name(Purpose purpose);

// Everything of some size that will be asked for: persistent values, slots, the arena, the loaders'
// batches, the data set and the checkpoint.
struct MemoryNeed {
  std::vector<HostBuffer> blocks;
  PlanReport report;     // of the training step, for an evaluation of the evaluation step
  bool complete = true;  // false: opening the data may tell of more
  int64_t bytes() const;
};

// As far as is known without opening the data (data_need() says how far).
DataNeed known_data(const Config& config);

// Images of the training's first batch: data.batch, but no more than there are.
int64_t running_batch(const Config& config, const DataNeed& data);

// Takes no memory for tensors; eager mode counts as if it were graph mode. With the need of opened
// data it is exact: what is asked for then is this, to the byte. `disabled_passes`: passes not to
// run (graph/lower.h). Throws what compiling throws.
MemoryNeed memory_need(const Config& config, const DataNeed& data,
                       Purpose purpose = Purpose::training,
                       const std::vector<std::string>& disabled_passes = {});
MemoryNeed memory_need(const Config& config, Purpose purpose = Purpose::training);

// Finds batches that fit. What has to be compiled is kept for each batch, so that asking again for
// other settings of checkpoints and loaders is nearly free.
class BatchSearch {
 public:
  // `config` and those asked for later may differ in data.batch, data.read_ahead, data.workers and
  // checkpoint.keep, in nothing else.
  BatchSearch(const Config& config, const DataNeed& data, Purpose purpose);
  ~BatchSearch();

  int64_t bytes(const Config& config);

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

}  // namespace tessera
