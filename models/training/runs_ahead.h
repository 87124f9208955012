// A probe around the steps of a training or a benchmark, and steps that run ahead of the host.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "tessera/graph/compile.h"

// A probe, by which a measuring library sees the steps of a training or a benchmark begin and end.
//
// A library brought in with LD_PRELOAD that defines these two functions is called around every
// training step, from taking the batch to reading the loss; tests/tools/count_allocations.cc is
// one. Without such a library a probe is two tests of a pointer.
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

// Steps that a GPU works on while the host prepares the next: what comes of each is looked at as
// soon as the one after it has been submitted, or at once where steps do not run ahead.
//
// `Run` says what was submitted: it has a member `CompiledStep* step`. Not thread-safe.
template <class Run>
class RunsAhead {
 public:
  // `look` is called for each run in order, when its results can be read.
  explicit RunsAhead(std::function<void(const Run&)> look) : look_(std::move(look)) {}

  // The arguments have been filled. Allocates nothing.
  void submit(Run run) {
    run.step->submit();
    const std::optional<Run> before = std::exchange(ahead_, run);
    if (before) collect(*before);
    if (run.step->max_runs_ahead() == 0) drain();
  }
  // Returns when all that was submitted has been looked at.
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
