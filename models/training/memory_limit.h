// memory.limit and the free memory: refuses a run that does not fit, and lists settings that would
// fit, each planned before it is suggested, and the largest batch that fits (remedies.cc). A limit
// refuses, a budget recomputes (memory_need.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/models/training/run.h"

namespace tessera {

// The host memory that a run may use at most, and the key that sets it: memory.limit or, on a part
// of the CPU, the limit of that part in devices.cpu, whichever is less.
struct HostLimit {
  int64_t bytes;
  std::string key;
};
std::optional<HostLimit> host_limit(const Config& config);

// Throws PlanInfeasible if the run's session needs more than host_limit(), more than
// memory.gpu_limit on a GPU, or more than is available. The error lists the needed and the
// available memory, the excess, the need by class, the tensors that set the minimum, and settings
// that would fit. In eager mode only limit_eager_memory() checks, when the session is made.
void require_fit(const Run& run);
// Checks like require_fit(), before the data are opened, as far as their size is known then.
// Compares with the free memory only if the data will be kept in memory. Leaves run.session() as it
// is.
void require_fit_ahead(const Run& run);

// A setting with which a run fits into a given amount of memory.
struct Remedy {
  enum class Changes {
    nothing,   // learned bits stay the same
    sums,      // gradients are summed in another order, and norms see a part of the batch
    training,  // an update is made from fewer images
  };
  std::string overrides;  // key=value pairs, separated by blanks: "memory.budget=2GiB"
  int64_t bytes = 0;      // needed with these overrides
  double slowdown = 0;    // estimated: 0.02 is 2 % more time per image
  double price = 0;       // slowdown, plus a fixed price for effects without an estimate
  Changes changes = Changes::nothing;
  std::string remark;  // "; nothing to resume from"
};

// The approximate memory that planning a step takes per node. A step of more parts is not planned
// if it takes more than three quarters of the limit or of 5 MiB, whichever is larger.
inline constexpr int64_t kPlanningBytes = 4096;

inline constexpr double kRemedySeconds = 1.2;  // for the remedies of a refusal

// Returns settings with which the run needs at most `limit` bytes of the host's memory or of the
// GPU's: smallest change first, then lowest price, at most four of each kind of change. Starts no
// plan that would probably not be finished within `seconds`.
std::vector<Remedy> remedies(const Run& run, int64_t limit, bool on_gpu,
                             double seconds = kRemedySeconds);

// Returns a line for each remedy, or a line that there are none:
//     memory.budget=9MiB        8.98 MiB   +3.2 % time  same bits
std::string remedies_text(const Run& run, int64_t limit, bool on_gpu,
                          double seconds = kRemedySeconds);

// Limits the allocator of eager tensors, which memory.allocator and memory.reserve choose, to the
// part of memory.limit, or else of the available memory, that everything else leaves. Throws
// PlanInfeasible if nothing is left. `session` is in eager mode and has no steps yet.
void limit_eager_memory(const Run& run, Session& session);

// Runs `action`. If it throws an OutOfMemory, adds a line for each setting that would fit the
// limit, or the free memory, once `action` has freed its memory.
void with_memory_advice(const Run& run, const std::function<void()>& action);

// Returns "memory: programs and libraries take 21.3 MiB besides": their resident memory, which no
// plan and no limit counts.
std::string libraries_text();

// Returns a warning, with the remedy, if `swapped` bytes of the process are in swap; empty if none
// are. No plan uses GPU memory that the system may oversubscribe, so swapping on the host is the
// only way that a step can wait for a disk.
std::string swap_text(int64_t swapped);

// Returns "85.1 MiB of 23.5 GiB that this machine has free; data.batch could grow to 1600": the
// used part of memory.limit, or else of the free memory, and the largest batch that would fit; "at
// least" if the search for it was cut short. In eager mode says instead that more will be
// allocated.
std::string headroom_text(const Run& run, int64_t used);

// Sets the key that decides the batch of such a run: data.batch, or eval.batch for an evaluation.
void set_batch(Config& config, Purpose purpose, int64_t images);

// Searches for batches that fit. Caches the compiled result for each batch and train.accumulate, so
// other settings of checkpoints and loaders cost almost nothing.
class BatchSearch {
 public:
  // Uses the data and the purpose of `run`, and counts host memory or that of the GPU; with
  // `slowdown` the smallest memory.budget with which a step of the training takes at most that much
  // more time (min_budget()).
  explicit BatchSearch(const Run& run, bool on_gpu = false, std::optional<double> slowdown = {});

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
