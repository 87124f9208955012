// Where a measuring library sees the steps of a training or a benchmark begin and end.
//
// A library brought in with LD_PRELOAD that defines these two functions is called around every
// training step, from taking the batch to reading the loss; tests/tools/count_allocations.cc is
// one. Without such a library a probe is two tests of a pointer.
#pragma once

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

}  // namespace tessera
