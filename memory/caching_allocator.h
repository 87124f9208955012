// CachingAllocator: the default allocator of eager mode. It keeps released blocks and splits and
// merges them, so a step that repeats its allocations needs no system allocation after the first.
//
// Blocks are multiples of the memory's alignment in one range of addresses, whose pages are
// committed on first use. A released block merges with its free neighbours at once. A request takes
// the smallest free block that holds it, the lowest address first. Small requests (below 1 MiB) and
// large ones are kept apart, so that a small long-lived tensor never splits a large hole. Free
// pages are decommitted before the limit refuses a request.
//
// A memory without ranges provides segments. Without a limit, segments are large and cut into
// blocks; under a limit each block is a segment of its own, so that every free block can go back.
#pragma once

#include <memory>

#include "tessera/memory/allocator.h"

namespace tessera {

class CachingAllocator : public Allocator {
 public:
  explicit CachingAllocator(RawMemory& memory, const AllocatorSettings& settings = {});
  // Frees all segments, including those with live blocks.
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // If no memory is available, trims, tries once more, and then throws OutOfMemory with the bytes
  // requested, live and reserved and the limit. The allocator remains usable.
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
