// A training before its first step, and its loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/models/run/checkpoint.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

struct Graph;
class Checkpointing;  // checkpointing.h
class Evaluator;      // evaluator.h
class Loader;         // models/data/loader.h
class RunFolder;      // models/run/run_folder.h
class RunLock;        // models/run/run_lock.h

// Members go in the reverse order: the folder stays locked until all else is given back.
struct TrainingSetup {
  explicit TrainingSetup(Run run);
  TrainingSetup(TrainingSetup&&) noexcept;
  ~TrainingSetup();

  Print print;  // above the progress bar
  std::unique_ptr<RunLock> lock;
  std::unique_ptr<Checkpointing> checkpoints;
  Run run;  // opened
  std::unique_ptr<Loader> loader;
  std::unique_ptr<Evaluator> evaluator;   // on the test images
  std::unique_ptr<Evaluator> validation;  // on those of data.validation; nullptr without
  TrainingState state;                    // where the training begins
  std::unique_ptr<RunFolder> folder;
  Json inference;  // models/run/inference.h

  int64_t total_steps = 0;
  bool quiet = false;             // TrainOptions::quiet
  std::string budget;             // what was done to keep to memory.budget; empty without one
  std::string summary, overview;  // the model line by line, and its parts; empty in eager mode

  const Config& config() const { return run.config(); }
  // How many epochs so many steps are.
  double epochs(int64_t steps) const;
  Tensors persistent() const;
  // Everything of some size that training asks of the machine, each in one request: what
  // memory_need() tells ahead, with loaders and data in their parts.
  std::vector<MemoryItem> blocks() const;
};

// Whether so many evaluations have brought no new best that the training ends here.
bool gives_up(const TrainingSetup& setup);

// Throws what train() does before its first step. Until nothing of that is left to throw, nothing
// is written and what an earlier training left is untouched.
TrainingSetup set_up_training(const Run& run, const Print& print, const TrainOptions& options);

// Returns a model as a table: what each layer computes, the shape it hands on, its parameters. A
// line for each place in the model, in the order in which the forward part of the step runs, then
// the sums; "3 again" at its end where so many of its steps run a second time, for a budget.
// `parameters` are those of the store. With depth 1 all of "layer1.0.conv1" and "layer1.1.bn2" is
// one line, "layer1".
std::string model_summary(const Graph& graph, const Tensors& parameters, int depth = 100);

// The loop of a training: batches, steps, evaluations, checkpoints, until its end or until it is
// asked to stop (training_loop.cc). Once for a setup, whose state goes along. Reads `stop` and
// `save` of the options. Throws as train() does from its first step on.
TrainResult run_training(TrainingSetup& setup, const TrainOptions& options);

}  // namespace tessera
