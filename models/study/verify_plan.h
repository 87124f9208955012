// Whether kernels keep to the bytes that the plan gives them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/models/training/run.h"

namespace tessera {

struct VerifyResult {
  int64_t steps = 0;
  size_t plan_bytes = 0;       // of the plan as it will train
  size_t arena_bytes = 0;      // with red zones
  size_t unplanned_bytes = 0;  // of the run that shares nothing
};

// Runs `steps` steps of training on generated batches, every third one smaller and followed by an
// evaluation, in three ways: with planner `none`; with the plan as it will train, its ownership
// replayed; and with the plan watched: dead bytes poisoned, red zones between blocks, ownership
// replayed. Throws InternalError where a kernel does not keep to its bytes, and where a loss or any
// persistent value differs in a bit; PlanInfeasible before anything runs when the training or one
// of these ways needs more than memory.limit.
VerifyResult verify_plan(const Run& run, int64_t steps = 9);

}  // namespace tessera
