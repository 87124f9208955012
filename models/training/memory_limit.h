// memory.limit, and the memory that the machine has free: what does not fit is refused, with the
// reason and with what would fit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/models/training/run.h"

namespace tessera {

// The most of the host's memory that a run may take, and the key that says so: memory.limit or, on
// a part of the CPU, that part's of devices.cpu, whichever is less.
struct HostLimit {
  int64_t bytes;
  std::string key;
};
std::optional<HostLimit> host_limit(const Config& config);

// Throws PlanInfeasible when the configuration has a host_limit(), or on a GPU a memory.gpu_limit,
// that is exceeded, or when the machine has less than is needed: needed, available, over by, by
// class, the tensors that set the minimum, and what would fit. Asks of the run's session. In eager
// mode only limit_eager_memory() asks, when the session is made.
void require_fit(const Run& run);
// The same before the data are opened, as far as is known then; what the machine has is asked only
// of data that will stand in memory. The run has no more of a session afterwards than before.
void require_fit_ahead(const Run& run);

// What memory.limit, or else the machine, leaves for the tensors of eager steps, when all else is
// taken, becomes the limit of their allocator, which memory.allocator and memory.reserve choose;
// they may ask for it as they go. Throws PlanInfeasible where nothing is left. `session`: without
// steps yet, in eager mode.
void limit_eager_memory(const Run& run, Session& session);

// Runs `action`. To an OutOfMemory that came all the same, once it has given everything back, a
// line is added for each setting that would fit the limit, or what the machine has free.
void with_memory_advice(const Run& run, const std::function<void()>& action);

// "memory: programs and libraries take 21.3 MiB besides": what is resident of them now, which no
// plan counts and no limit of ours holds.
std::string libraries_text();

// What to say where so many bytes of the process have been swapped out, with the remedy; empty
// where none have. Nothing of a plan is placed where the system may oversubscribe a GPU's memory,
// so on the host this is the only way that a step can wait for a disk.
std::string swap_text(int64_t swapped);

// "85.1 MiB of 23.5 GiB that this machine has free; data.batch could grow to 1600": what is used of
// memory.limit or else of what the machine has free, and the largest batch that would fit; "at
// least": the search for it was ended. In eager mode, instead, that more will be asked for.
std::string headroom_text(const Run& run, int64_t used);

}  // namespace tessera
