// Sequences of allocations and releases, recorded or random, and the limit under which an allocator
// must serve them.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/memory/allocator.h"
#include "tessera/runtime/error.h"

namespace tessera::testing_events {

// An allocation (bytes > 0) or a release of a numbered block.
struct AllocationEvent {
  size_t block;
  size_t bytes;
};
using AllocationEvents = std::vector<AllocationEvent>;

// Returns the lowest limit under which "direct" serves the events.
inline size_t min_limit_of_direct(const AllocationEvents& events) {
  std::unordered_map<size_t, size_t> live;
  size_t now = 0, most = 0;
  for (const auto& [block, bytes] : events) {
    if (bytes > 0) {
      now += live[block] = bytes;
    } else {
      now -= live[block];
    }
    most = std::max(most, now);
  }
  return most;
}

// Returns the limit under which "caching" must serve the events.
inline size_t most_for_caching(const AllocationEvents& events) {
  const size_t direct = min_limit_of_direct(events);
  return std::max(direct + direct / 20, direct + (size_t{2} << 20));
}

// Applies events to an allocator. Marks both ends of blocks if the host may touch them.
class Replay {
 public:
  explicit Replay(Allocator& allocator, bool touch = false)
      : allocator_(allocator), touch_(touch) {}
  ~Replay() {
    for (const auto& [number, block] : live_) allocator_.release(block.data);
  }

  // Returns false if the allocator throws, or if another block has overwritten the marks. Ignores
  // releases of blocks that were refused.
  bool apply(const AllocationEvent& event) {
    const auto mark = static_cast<unsigned char>(event.block);
    if (event.bytes > 0) {
      try {
        auto* const data = static_cast<unsigned char*>(allocator_.allocate(event.bytes));
        live_[event.block] = {data, event.bytes};
        if (touch_) data[0] = data[event.bytes - 1] = mark;
        return true;
      } catch (const OutOfMemory&) {
        return false;
      }
    }
    const auto found = live_.find(event.block);
    if (found == live_.end()) return true;
    const auto [data, bytes] = found->second;
    const bool whole = !touch_ || (data[0] == mark && data[bytes - 1] == mark);
    allocator_.release(data);
    live_.erase(found);
    return whole;
  }

 private:
  struct Block {
    unsigned char* data;
    size_t bytes;
  };
  Allocator& allocator_;
  const bool touch_;
  std::unordered_map<size_t, Block> live_;
};

// Returns the number of events that fail.
inline int64_t failures(Allocator& allocator, const AllocationEvents& events, bool touch = false) {
  Replay replay(allocator, touch);
  return std::count_if(events.begin(), events.end(),
                       [&](const AllocationEvent& event) { return !replay.apply(event); });
}

// Returns random events: sizes spread over octaves up to some bytes or MiB; a quarter of the blocks
// live long, the others are released as from a stack, a queue or at random. Phases differ in sizes.
inline AllocationEvents random_events(uint32_t seed) {
  std::mt19937 numbers(seed);
  const auto below = [&](size_t end) { return numbers() % end; };
  AllocationEvents events;
  std::vector<size_t> live;
  size_t next = 0;
  const size_t order = below(3), max_live = 4 + below(60);
  for (size_t phase = 1 + below(4); phase > 0; --phase) {
    const size_t low = 4 + below(14), octaves = 1 + below(24 - low), kinds = 1 + below(12);
    std::vector<size_t> sizes;
    for (size_t i = 0; i < kinds; ++i) {
      const size_t octave = size_t{1} << (low + below(octaves));
      sizes.push_back(octave + below(octave));
    }
    for (int i = 0; i < 100; ++i) {
      if (live.size() < max_live && below(5) < 3) {
        events.push_back({next, sizes[below(kinds)]});
        live.push_back(next++);
      } else if (!live.empty()) {
        const size_t kept = std::min(live.size() - 1, max_live / 4);
        const size_t at = order == 0   ? live.size() - 1
                          : order == 1 ? kept
                                       : kept + below(live.size() - kept);
        events.push_back({live[at], 0});
        live.erase(live.begin() + static_cast<ptrdiff_t>(at));
      }
    }
  }
  return events;
}

// Forwards to "direct" and records.
class RecordingAllocator final : public Allocator {
 public:
  RecordingAllocator(RawMemory& memory, std::shared_ptr<AllocationEvents> events)
      : direct_(make_allocator("direct", memory)), events_(std::move(events)) {}
  void* allocate(size_t bytes) override {
    void* const block = direct_->allocate(bytes);
    if (bytes == 0) return block;
    events_->push_back({next_, bytes});
    numbers_[block] = next_++;
    return block;
  }
  void release(void* block) noexcept override {
    if (block != nullptr) events_->push_back({numbers_[block], 0});
    direct_->release(block);
  }
  void trim() override {}
  AllocatorStatistics statistics() const override { return direct_->statistics(); }
  void reset_peak() override { direct_->reset_peak(); }

 private:
  const std::unique_ptr<Allocator> direct_;
  const std::shared_ptr<AllocationEvents> events_;  // outlives the code that set the allocator
  std::unordered_map<void*, size_t> numbers_;
  size_t next_ = 0;
};

}  // namespace tessera::testing_events
