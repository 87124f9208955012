// Bytes for tensors that come and go one at a time (eager mode): the interface, and the allocators
// by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/runtime/raw_memory.h"

namespace tessera {

struct AllocatorStatistics {
  size_t live_bytes = 0;           // requested by callers and not yet released
  size_t peak_live_bytes = 0;      // the largest live_bytes since the start or reset_peak()
  size_t held_bytes = 0;           // live blocks as rounded by the allocator
  size_t reserved_bytes = 0;       // taken from the raw memory, live or cached
  size_t peak_reserved_bytes = 0;  // the largest reserved_bytes since the start or reset_peak()
  size_t largest_free_bytes = 0;   // the largest block that can be had without asking the machine
  uint64_t allocations = 0;
  uint64_t releases = 0;
  uint64_t cache_hits = 0;  // allocations that did not ask the machine

  // The share of free reserved bytes that the largest request could not use, in [0, 1]:
  // 1 - largest_free / (reserved - held); 0 when nothing is free.
  double fragmentation() const;
};

// As a RawMemory names what allocators hold of it.
inline constexpr std::string_view kEagerTag = "eager tensors";

// Thread-safe, as every implementation must be. Must outlive its blocks.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // A block aligned as those of the memory (RawMemory::alignment()), not zeroed; nullptr for 0
  // bytes. Throws OutOfMemory.
  virtual void* allocate(size_t bytes) = 0;
  // Gives back a block of this allocator at once; nullptr is allowed. Ends the program when the
  // block is not live: continuing would corrupt memory.
  virtual void release(void* block) noexcept = 0;
  // Hands memory that is cached but not live back to the machine.
  virtual void trim() = 0;
  virtual AllocatorStatistics statistics() const = 0;
  // Peaks start again from what is live and reserved now.
  virtual void reset_peak() = 0;
};

// All combine: a reserve is taken up front and grows beyond it, up to the limit.
struct AllocatorSettings {
  size_t limit = RawMemory::kNoLimit;  // bytes it may reserve
  size_t reserve = 0;                  // bytes taken up front (caching only), in whole pages of a
                                       // range; 0: grow as needed
  size_t growth = size_t{32} << 20;    // least bytes asked of the machine at once for large blocks
                                       // (caching only), where the limit allows them
};

// "caching" (the default), "direct" (asks the machine each time) or one that was added; nullptr
// when unknown. Keeps a reference to the memory. Throws OutOfMemory when the reserve cannot be had.
std::unique_ptr<Allocator> make_allocator(std::string_view name, RawMemory& memory,
                                          const AllocatorSettings& settings = {});

// An allocator of one's own takes its bytes from the memory it is given, in blocks as large as it
// likes; that memory has the limit, so it holds for every allocator.
using AllocatorFactory =
    std::function<std::unique_ptr<Allocator>(RawMemory& memory, const AllocatorSettings& settings)>;
// From now on make_allocator(), set_eager_allocator() and memory.allocator of configurations know
// it by name. False, and not added, where the name is taken. Thread-safe.
bool add_allocator(const std::string& name, AllocatorFactory make);

// The built-in ones, then those that were added. Thread-safe.
std::vector<std::string> known_allocators();
// "caching, direct", for error messages.
std::string allocator_names();

}  // namespace tessera
