// Arena: the one block of memory in which all programs of a device run, one after the other.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/memory/regions.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {

// The size is that of the largest program that shares the arena. Allocated when the first program
// runs; grows when a larger program, prepared later, runs. Not thread-safe.
class Arena {
 public:
  explicit Arena(RawMemory& memory) : memory_(memory) {}
  // Uses memory of the embedding program. Cannot grow.
  Arena(RawMemory& memory, ExternalMemory external) : memory_(memory), external_(external) {}

  void reserve(size_t bytes) {
    if (bytes > wanted_) wanted_ = bytes;
  }
  size_t bytes() const { return wanted_; }
  // Uses memory of the embedding program, at least bytes(). Throws Error after the first run.
  void bring(ExternalMemory external) {
    if (region_.bytes() > 0)
      throw Error("arena: its memory is already in use; provide memory before the first run");
    external_ = external;
  }

  // Allocates all reserved bytes unless the arena already has `needed`. If that much memory is not
  // available, allocates only `needed`, so that a small step still runs after a large one has
  // failed. Throws OutOfMemory, and ConfigError if the external memory is too small. generation()
  // changes whenever the memory has moved.
  void require(size_t needed) {
    if (region_.bytes() >= needed) return;
    region_ = Region();  // release first: never hold both blocks at once
    ++generation_;
    try {
      region_ = take(wanted_);
    } catch (const Error&) {
      if (needed == wanted_) throw;
      region_ = take(needed);
    }
  }
  std::byte* data() const { return region_.data(); }
  uint64_t generation() const { return generation_; }

 private:
  Region take(size_t bytes) {
    return external_.data ? Region("arena", bytes, external_, memory_.alignment())
                          : Region("arena", bytes, memory_);
  }

  RawMemory& memory_;
  ExternalMemory external_;
  Region region_;
  size_t wanted_ = 0;
  uint64_t generation_ = 0;
};

// The arenas of programs that share them: one for each device. Not thread-safe: ArenasInUse detects
// two threads that run such programs at once.
class Arenas {
 public:
  // Returns the arena of the device. The first call makes it, in the memory of the device or in
  // `memory`.
  Arena& on(Device device) { return on(device, context(device).memory()); }
  Arena& on(Device device, RawMemory& memory) {
    const auto known = std::ranges::find(arenas_, device, &Entry::first);
    return known != arenas_.end() ? *known->second : add(device, Arena(memory));
  }
  // Adds `arena` for a device that has none. Throws Error if the device already has an arena.
  Arena& add(Device device, Arena arena) {
    if (std::ranges::find(arenas_, device, &Entry::first) != arenas_.end())
      throw Error("arenas: an arena already exists on " + device.name() +
                  "; provide memory before compiling");
    arenas_.emplace_back(device, std::make_unique<Arena>(std::move(arena)));
    return *arenas_.back().second;
  }
  size_t bytes(Device device) const {  // 0 if the device has no arena
    const auto known = std::ranges::find(arenas_, device, &Entry::first);
    return known != arenas_.end() ? known->second->bytes() : 0;
  }

 private:
  friend class ArenasInUse;
  using Entry = std::pair<Device, std::unique_ptr<Arena>>;
  std::vector<Entry> arenas_;
  std::atomic<std::thread::id> user_ = {};  // the thread that runs a program in these arenas
};

// Thrown if a compiled function is called while another thread calls it, or a function that shares
// its arenas.
class ConcurrentCall : public Error {
  using Error::Error;
};

// While this scope exists, the arenas are reserved for this thread. Scopes of one thread nest.
class ArenasInUse {
 public:
  // Throws ConcurrentCall, which names the function by its arguments, if another thread has the
  // arenas.
  ArenasInUse(Arenas& arenas, const Specs& arguments);
  ~ArenasInUse();
  ArenasInUse(const ArenasInUse&) = delete;
  ArenasInUse& operator=(const ArenasInUse&) = delete;

 private:
  std::atomic<std::thread::id>& user_;
  bool outermost_ = false;
};

}  // namespace tessera
