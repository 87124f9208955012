// The allocator of eager mode: keeps what is released, splits and merges blocks, and so asks the
// machine rarely. A step that repeats its allocations asks nothing after the first.
//
// Large segments are cut into blocks that are multiples of the memory's alignment; a released block
// merges with its free neighbours at once. A request takes the smallest free block that holds it,
// the lowest address first. Small requests (below 1 MiB) and large ones stand in segments of their
// own, so that a small long-lived tensor never pins a large hole.
#pragma once

#include <memory>

#include "tessera/memory/allocator.h"

namespace tessera {

class CachingAllocator : public Allocator {
 public:
  explicit CachingAllocator(RawMemory& memory, const AllocatorSettings& settings = {});
  // Gives every segment back; blocks still live are lost with them.
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // When the machine has no more it trims, tries once again, and only then throws OutOfMemory with
  // bytes asked, live, reserved and the limit; the allocator stays as usable as before.
  void* allocate(size_t bytes) override;
  void release(void* block) noexcept override;
  void trim() override;
  AllocatorStatistics statistics() const override;
  void reset_peak() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
