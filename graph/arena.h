// Arena: the one block of bytes that all programs of a device run in, one after the other.
#pragma once

#include "tessera/memory/regions.h"
#include "tessera/runtime/context.h"

namespace tessera {

// As large as the largest program that shares it. Bytes are taken when the first program runs; a
// program prepared after that which needs more makes it grow once more, and the others follow.
// Not thread-safe.
class Arena {
 public:
  explicit Arena(RawMemory& memory) : memory_(memory) {}
  // Runs in memory that the embedding program brings. It cannot grow.
  Arena(RawMemory& memory, ExternalMemory brought) : memory_(memory), brought_(brought) {}

  void reserve(size_t bytes) {
    if (bytes > wanted_) wanted_ = bytes;
  }
  size_t bytes() const { return wanted_; }

  // The bytes; throws OutOfMemory. `generation` changes whenever they have moved.
  std::byte* data() {
    if (region_.bytes() < wanted_) {
      region_ = Region();  // first give back, then take: never both at once
      region_ = brought_.data ? Region("arena", wanted_, brought_)
                              : Region("arena", wanted_, memory_);
      ++generation_;
    }
    return region_.data();
  }
  uint64_t generation() const { return generation_; }

 private:
  RawMemory& memory_;
  ExternalMemory brought_;
  Region region_;
  size_t wanted_ = 0;
  uint64_t generation_ = 0;
};

}  // namespace tessera
