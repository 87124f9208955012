// Arena: the one block of bytes that all programs of a device run in, one after the other.
#pragma once

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

// As large as the largest program that shares it. Bytes are taken when the first program runs; one
// prepared after that which needs more makes it grow when it runs, and the others follow.
// Not thread-safe.
class Arena {
 public:
  explicit Arena(RawMemory& memory) : memory_(memory) {}
  // Runs in memory that the embedding program brings. It cannot grow.
  Arena(RawMemory& memory, ExternalMemory external) : memory_(memory), external_(external) {}

  void reserve(size_t bytes) {
    if (bytes > wanted_) wanted_ = bytes;
  }
  size_t bytes() const { return wanted_; }
  // Runs in memory that the embedding program brings once bytes() is known. Throws Error after the
  // first run.
  void bring(ExternalMemory external) {
    if (region_.bytes() > 0)
      throw Error("arena: its bytes are in use already; bring memory before the first run");
    external_ = external;
  }

  // Takes the bytes, all that are wanted, unless there are the `needed` already. Where not all are
  // to be had it takes those needed, so that after a step that is too large a smaller one still
  // runs. Throws OutOfMemory; ConfigError when what was brought is too small. `generation` changes
  // whenever the bytes have moved.
  void require(size_t needed) {
    if (region_.bytes() >= needed) return;
    region_ = Region();  // first give back, then take: never both at once
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

// An arena for each device that the programs which share them run on. Not thread-safe: ArenasInUse
// finds out where two threads run such programs at once.
class Arenas {
 public:
  // Made at the first call, over the memory of the device, or that given.
  Arena& on(Device device) { return on(device, context(device).memory()); }
  Arena& on(Device device, RawMemory& memory) {
    for (const auto& [known, arena] : arenas_)
      if (known == device) return *arena;
    return add(device, Arena(memory));
  }
  // Another one for a device on which no program has been prepared yet. Throws Error where one has.
  Arena& add(Device device, Arena arena) {
    for (const auto& entry : arenas_)
      if (entry.first == device)
        throw Error("arenas: there is one on " + device.name() + "; bring memory before compiling");
    arenas_.emplace_back(device, std::make_unique<Arena>(std::move(arena)));
    return *arenas_.back().second;
  }
  size_t bytes(Device device) const {  // 0 where there is none
    for (const auto& [known, arena] : arenas_)
      if (known == device) return arena->bytes();
    return 0;
  }

 private:
  friend class ArenasInUse;
  std::vector<std::pair<Device, std::unique_ptr<Arena>>> arenas_;
  std::atomic<std::thread::id> user_ = {};  // the thread that runs a program in them
};

// A call of a compiled function while another thread calls it, or one that shares its arenas.
class ConcurrentCall : public Error {
  using Error::Error;
};

// While it lives, the arenas belong to this thread, in which it may nest.
class ArenasInUse {
 public:
  // Throws ConcurrentCall, which names the function by its arguments, if they belong to another.
  ArenasInUse(Arenas& arenas, const Specs& arguments);
  ~ArenasInUse();
  ArenasInUse(const ArenasInUse&) = delete;
  ArenasInUse& operator=(const ArenasInUse&) = delete;

 private:
  std::atomic<std::thread::id>& user_;
  bool outermost_ = false;
};

}  // namespace tessera
