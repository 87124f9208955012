// Allocators of eager mode, whose tensors are allocated one by one: the interface, and a registry
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
  size_t reserved_bytes = 0;       // allocated from the raw memory, live or cached
  size_t peak_reserved_bytes = 0;  // the largest reserved_bytes since the start or reset_peak()
  size_t largest_free_bytes = 0;   // the largest block available without a system allocation
  uint64_t allocations = 0;
  uint64_t releases = 0;
  uint64_t cache_hits = 0;  // allocations served from memory already reserved
};

// The tag under which a RawMemory reports the bytes of eager allocators.
inline constexpr std::string_view kEagerTag = "eager tensors";

// The interface of all allocators. Thread-safe, as every implementation must be. An allocator must
// outlive its blocks.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // Returns a block with the alignment of the memory (RawMemory::alignment()), not zeroed; nullptr
  // for 0 bytes. Throws OutOfMemory.
  virtual void* allocate(size_t bytes) = 0;
  // Frees a block of this allocator at once; nullptr is allowed. Ends the program if the block is
  // not live, because continuing would corrupt memory.
  virtual void release(void* block) noexcept = 0;
  // Gives memory that is cached but not live back to the system.
  virtual void trim() = 0;
  virtual AllocatorStatistics statistics() const = 0;
  // Resets the peaks to the bytes that are live and reserved now.
  virtual void reset_peak() = 0;
};

// All combine: the reserve is allocated up front, further memory as needed, up to the limit.
struct AllocatorSettings {
  size_t limit = RawMemory::kNoLimit;  // maximum of reserved bytes
  size_t reserve = 0;                  // bytes allocated up front (caching only), in whole pages of
                                       // a range; 0: grow as needed
  size_t growth = size_t{32} << 20;    // minimum bytes of a system allocation for large blocks
                                       // (caching only), if the limit allows it
};

// Makes a "caching" (the default), "direct" (a system allocation per block) or added allocator;
// returns nullptr if the name is unknown. Keeps a reference to `memory`. Throws OutOfMemory if the
// reserve cannot be allocated.
std::unique_ptr<Allocator> make_allocator(std::string_view name, RawMemory& memory,
                                          const AllocatorSettings& settings = {});

// A factory of user-defined allocators, which allocate from `memory` in blocks of any size.
// `memory` has the limit, so the limit holds for every allocator.
using AllocatorFactory =
    std::function<std::unique_ptr<Allocator>(RawMemory& memory, const AllocatorSettings& settings)>;
// Registers an allocator for make_allocator(), set_eager_allocator() and memory.allocator of
// configurations. Returns false, and adds nothing, if the name is already registered. Thread-safe.
bool add_allocator(const std::string& name, AllocatorFactory make);

// Returns the names of the built-in allocators, then of the added ones. Thread-safe.
std::vector<std::string> known_allocators();
// Returns these names as "caching, direct", for error messages.
std::string allocator_names();

}  // namespace tessera
