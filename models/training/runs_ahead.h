// StepProbe: hooks around the steps of a training or a benchmark. RunsAhead: steps that run ahead
// of the host.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "tessera/graph/compile.h"

// Hooks for a measuring library, called at the begin and the end of each step.
//
// A library loaded with LD_PRELOAD that defines these two functions is called around every training
// step, from taking the batch to reading the loss; tests/tools/count_allocations.cc is an example.
// Without such a library a probe costs two tests of a pointer.
extern "C" {
[[gnu::weak]] void tessera_step_begin();
[[gnu::weak]] void tessera_step_end();
}

namespace tessera {

struct StepProbe {
  StepProbe() {
    if (tessera_step_begin) tessera_step_begin();
  }
  ~StepProbe() {
    if (tessera_step_end) tessera_step_end();
  }
  StepProbe(const StepProbe&) = delete;
  StepProbe& operator=(const StepProbe&) = delete;
};

// Overlaps the steps of a GPU with the host's work for the next step: the results of a step are
// read after the next one has been submitted, or at once if steps do not run ahead.
//
// `Run` describes a submitted step; it has a member `CompiledStep* step`. Not thread-safe.
template <class Run>
class RunsAhead {
 public:
  // `look` is called for each run in order, when its results can be read.
  explicit RunsAhead(std::function<void(const Run&)> look) : look_(std::move(look)) {}

  // Submits a step. Requires that its arguments have been filled. Allocates nothing.
  void submit(Run run) {
    run.step->submit();
    const std::optional<Run> before = std::exchange(ahead_, run);
    if (before) collect(*before);
    if (run.step->max_runs_ahead() == 0) drain();
  }
  // Waits until the results of all submitted steps have been passed to `look`.
  void drain() {
    const std::optional<Run> run = std::exchange(ahead_, std::nullopt);
    if (run) collect(*run);
  }

 private:
  void collect(const Run& run) {
    run.step->collect();
    look_(run);
  }

  std::function<void(const Run&)> look_;
  std::optional<Run> ahead_;
};

}  // namespace tessera
