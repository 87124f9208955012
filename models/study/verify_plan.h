// verify_plan(): checks that kernels use only the bytes that the plan gives them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/models/training/run.h"

namespace tessera {

struct VerifyResult {
  int64_t steps = 0;
  size_t plan_bytes = 0;       // in training
  size_t arena_bytes = 0;      // including red zones
  size_t unplanned_bytes = 0;  // without sharing
};

// Runs `steps` training steps on generated batches, every third one smaller and followed by an
// evaluation, in three ways: with planner `none`; with the training's plan and its ownership
// replayed; and with that plan watched: dead bytes poisoned, red zones between blocks, ownership
// replayed. Throws InternalError if a kernel uses bytes of others, or if a loss or a persistent
// value differs in a bit. Throws PlanInfeasible before anything runs if the training or one of
// these ways needs more than memory.limit.
VerifyResult verify_plan(const Run& run, int64_t steps = 9);

}  // namespace tessera
