// The allocator of eager mode: keeps what is released, splits and merges blocks, and so asks the
// machine rarely. A step that repeats its allocations asks nothing after the first.
//
// Blocks are multiples of the memory's alignment and stand in one range of addresses, whose pages
// are committed when they are first used; a released block merges with its free neighbours at once.
// A request takes the smallest free block that holds it, the lowest address first. Small requests
// (below 1 MiB) and large ones stand apart, so that a small long-lived tensor never pins a large
// hole. Free pages are decommitted before a limit refuses anything.
//
// A memory without ranges gives segments: without a limit they are large and cut into blocks, under
// a limit each block is a segment of its own, so that whatever is free can go back.
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
