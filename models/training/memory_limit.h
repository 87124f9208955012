// memory.limit and the free memory: refuses a run that does not fit, and lists settings that would
// fit. A limit refuses, a budget recomputes (memory_budget.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

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

}  // namespace tessera
