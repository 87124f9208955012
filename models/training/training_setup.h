// TrainingSetup: a training before its first step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/run/checkpoint.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/training.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

struct Graph;
class Checkpointing;  // checkpointing.h
class Evaluator;      // evaluator.h
class Loader;         // models/data/loader.h

// A training that is ready for its first step. Members are destroyed in reverse order, so the
// folder stays locked until everything else has been freed.
struct TrainingSetup {
  explicit TrainingSetup(Run run);
  TrainingSetup(TrainingSetup&&) noexcept;
  ~TrainingSetup();

  Print print;                    // prints above the progress bar
  std::unique_ptr<RunLock> lock;  // nullptr, like `folder`, in processes that do not lead
  std::unique_ptr<Checkpointing> checkpoints;
  Run run;  // opened
  std::unique_ptr<Loader> loader;
  std::unique_ptr<Evaluator> evaluator;   // on the test images
  std::unique_ptr<Evaluator> validation;  // on those of data.validation, or nullptr
  TrainingState state;                    // the state that the training begins with
  std::unique_ptr<RunFolder> folder;
  Json inference;  // models/run/inference.h

  int64_t total_steps = 0;
  bool quiet = false;                // TrainOptions::quiet
  std::string budget;                // the effect of memory.budget, as text; empty without a budget
  std::vector<std::string> drawing;  // pieces of the SVG of the plan of a step; none in eager mode
  std::string summary, overview;     // the model line by line, and its parts; empty in eager mode

  const Config& config() const { return run.config(); }
  // Returns `steps` in epochs.
  double epochs(int64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(state.batches);
  }
  // Returns true if enough evaluations in a row found no new best, so that the training ends.
  bool gives_up() const {
    const int patience = config().train.patience;
    return patience > 0 && state.since_best >= patience;
  }
  Tensors persistent() const;
  // Returns all memory of notable size that training allocates, one entry per allocation: like
  // memory_need(), but with the loaders and the data split into their parts.
  std::vector<MemoryItem> blocks() const;
};

// Prepares a training. Throws what train() throws before its first step. Writes nothing, and leaves
// the files of an earlier training untouched, until all checks have passed.
TrainingSetup set_up_training(const Run& run, const Print& print, const TrainOptions& options);

// Returns a model as a table: the ops of each layer, its output shape and its parameters. There is
// a line for each module path, in the order of the forward pass, then the sums; a line ends with "3
// recomputed" if 3 of its nodes are recomputed because of a budget. `parameters` are those of the
// store. At depth 1, "layer1.0.conv1" and "layer1.1.bn2" share one line, "layer1". Ops are cut to
// fit into lines of `columns` characters (0: any).
std::string model_summary(const Graph& graph, const Tensors& parameters, int depth = 100,
                          int columns = 0);

}  // namespace tessera
