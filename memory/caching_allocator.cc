#include "tessera/memory/caching_allocator.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

constexpr size_t kSmallBelow = size_t{1} << 20;          // smaller requests stand in chunks
constexpr size_t kChunk = size_t{2} << 20;               // a segment for small requests
constexpr size_t kSegmentGranularity = size_t{2} << 20;  // larger ones are a multiple of this

struct Segment;

// A piece of a segment, live or free; all pieces of a segment form a list in address order.
struct Block {
  std::byte* data;
  size_t bytes;
  Segment* segment;
  Block* before = nullptr;
  Block* after = nullptr;
  size_t requested = 0;
  bool live = false;
};

struct SmallestThenLowest {
  bool operator()(const Block* a, const Block* b) const {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
  }
};

struct Pool {
  std::set<Block*, SmallestThenLowest> free;

  Block* smallest_that_holds(size_t bytes) const {
    Block probe{nullptr, bytes, nullptr};
    const auto found = free.lower_bound(&probe);
    return found == free.end() ? nullptr : *found;
  }
  size_t largest() const { return free.empty() ? 0 : (*free.rbegin())->bytes; }
};

// Bytes from the machine, or (parent set) a live block of the large pool lent to the small one.
struct Segment {
  std::byte* data;
  size_t bytes;
  Pool* pool;
  Block* parent;
  Block* first;

  bool unused() const { return !first->live && first->after == nullptr; }
};

[[noreturn]] void not_ours(const void* block) {
  throw InternalError(fmt::format("caching allocator: {} was released but is not live", block));
}

}  // namespace

struct CachingAllocator::Impl {
  RawMemory& memory;
  const AllocatorSettings settings;
  mutable std::mutex mutex;
  Pool small, large;
  std::vector<Segment*> segments;  // oldest first
  std::unordered_map<void*, Block*> live;
  AllocatorStatistics statistics;

  Impl(RawMemory& raw, const AllocatorSettings& wanted) : memory(raw), settings(wanted) {}

  ~Impl() {
    for (Segment* segment : segments) {
      for (Block* block = segment->first; block != nullptr;)
        delete std::exchange(block, block->after);
      if (segment->parent == nullptr) memory.release(segment->data, segment->bytes);
      delete segment;
    }
  }

  Segment* add_segment(void* data, size_t bytes, Pool& pool, Block* parent) {
    auto* segment = new Segment{static_cast<std::byte*>(data), bytes, &pool, parent, nullptr};
    segment->first = new Block{segment->data, bytes, segment};
    segments.push_back(segment);
    pool.free.insert(segment->first);
    return segment;
  }

  void remove_segment(Segment* segment) {
    segment->pool->free.erase(segment->first);
    std::erase(segments, segment);
    if (segment->parent != nullptr) {
      free_block(segment->parent);
    } else {
      memory.release(segment->data, segment->bytes);
      statistics.reserved_bytes -= segment->bytes;
    }
    delete segment->first;
    delete segment;
  }

  // A new segment from the machine, or nullptr when it or the limit does not allow it.
  Block* ask_machine(size_t bytes, Pool& pool) {
    if (bytes > settings.limit || statistics.reserved_bytes > settings.limit - bytes)
      return nullptr;
    void* data = nullptr;
    try {
      data = memory.allocate(bytes, kEagerHolder);
    } catch (const OutOfMemory&) {
      return nullptr;
    }
    statistics.reserved_bytes += bytes;
    statistics.peak_reserved_bytes =
        std::max(statistics.peak_reserved_bytes, statistics.reserved_bytes);
    return add_segment(data, bytes, pool, nullptr)->first;
  }

  // A chunk for small requests cut out of the free large blocks, or nullptr.
  Block* lend_chunk(size_t need) {
    Block* block = large.smallest_that_holds(kChunk);
    if (block == nullptr) block = large.smallest_that_holds(need);
    if (block == nullptr) return nullptr;
    take_block(block, std::min(kChunk, block->bytes));
    return add_segment(block->data, block->bytes, small, block)->first;
  }

  Block* grow(Pool& pool, size_t need) {
    Block* block = nullptr;
    if (&pool == &small) {
      if (settings.reserve > 0) block = lend_chunk(need);
      if (block == nullptr) block = ask_machine(kChunk, small);
      if (block == nullptr) block = lend_chunk(need);
    } else {
      retire(need);
      const size_t rounded =
          (need + kSegmentGranularity - 1) / kSegmentGranularity * kSegmentGranularity;
      block = ask_machine(std::max(rounded, settings.growth), large);
    }
    if (block == nullptr) block = ask_machine(need, pool);
    return block;
  }

  // Unused large segments that are too small for this request make place for the one that is not,
  // so that a few segments large enough for everything remain, not one for every size.
  void retire(size_t need) {
    size_t given = 0;
    for (Segment* segment : std::vector(segments)) {
      if (given >= need) break;
      if (segment->pool != &large || !segment->unused() || segment->bytes >= need) continue;
      given += segment->bytes;
      remove_segment(segment);
    }
  }

  void trim() {
    // Chunks first: a chunk that is lent keeps its large segment in use.
    for (Pool* pool : {&small, &large}) {
      for (Segment* segment : std::vector(segments)) {
        if (segment->pool == pool && segment->unused()) remove_segment(segment);
      }
    }
  }

  // Makes the first `bytes` of a free block live; the rest stays free.
  void take_block(Block* block, size_t bytes) {
    Pool& pool = *block->segment->pool;
    pool.free.erase(block);
    if (block->bytes > bytes) {
      auto* rest =
          new Block{block->data + bytes, block->bytes - bytes, block->segment, block, block->after};
      if (rest->after != nullptr) rest->after->before = rest;
      block->after = rest;
      block->bytes = bytes;
      pool.free.insert(rest);
    }
    block->live = true;
  }

  // Merges a block with its free neighbours; a lent chunk that is unused goes home.
  void free_block(Block* block) {
    Segment* segment = block->segment;
    block->live = false;
    if (block->before != nullptr && !block->before->live) {
      block = block->before;
      segment->pool->free.erase(block);
      absorb_next(block);
    }
    if (block->after != nullptr && !block->after->live) {
      segment->pool->free.erase(block->after);
      absorb_next(block);
    }
    segment->pool->free.insert(block);
    if (segment->parent != nullptr && segment->unused()) remove_segment(segment);
  }

  void absorb_next(Block* block) {
    Block* next = block->after;
    block->bytes += next->bytes;
    block->after = next->after;
    if (block->after != nullptr) block->after->before = block;
    delete next;
  }

  [[noreturn]] void refuse(size_t bytes) const {
    std::string limit =
        settings.limit == RawMemory::kNoLimit ? "" : fmt::format(", limit {}", settings.limit);
    throw OutOfMemory(fmt::format(
        "{}: out of memory: {} bytes asked, {} live, {} reserved{}, largest free block {}; {}use a "
        "smaller batch or raise the limit",
        memory.name(), bytes, statistics.live_bytes, statistics.reserved_bytes, limit,
        std::max(small.largest(), large.largest()), what_fits()));
  }

  // The most that a single request could have now.
  std::string what_fits() const {
    const size_t held = statistics.reserved_bytes, limit = settings.limit;
    const size_t from_machine = std::min(limit - std::min(limit, held), memory.available());
    if (from_machine == RawMemory::kNoLimit) return "";
    const size_t most = std::max({small.largest(), large.largest(), from_machine});
    return fmt::format("at most {} would fit; ", byte_text(static_cast<int64_t>(most)));
  }
};

CachingAllocator::CachingAllocator(RawMemory& memory, const AllocatorSettings& settings)
    : impl_(std::make_unique<Impl>(memory, settings)) {
  const size_t reserve = round_to_alignment(settings.reserve, memory.alignment());
  if (reserve > 0 && impl_->ask_machine(reserve, impl_->large) == nullptr) impl_->refuse(reserve);
}

CachingAllocator::~CachingAllocator() = default;

void* CachingAllocator::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  std::lock_guard lock(impl_->mutex);
  if (bytes > SIZE_MAX / 2) impl_->refuse(bytes);
  const size_t need = round_to_alignment(bytes, impl_->memory.alignment());
  Pool& pool = need < kSmallBelow ? impl_->small : impl_->large;
  Block* block = pool.smallest_that_holds(need);
  AllocatorStatistics& statistics = impl_->statistics;
  if (block != nullptr) ++statistics.cache_hits;
  if (block == nullptr) block = impl_->grow(pool, need);
  if (block == nullptr) {
    impl_->trim();
    block = impl_->grow(pool, need);
  }
  if (block == nullptr) impl_->refuse(bytes);
  impl_->take_block(block, need);
  block->requested = bytes;
  impl_->live.emplace(block->data, block);
  ++statistics.allocations;
  statistics.live_bytes += bytes;
  statistics.held_bytes += need;
  statistics.peak_live_bytes = std::max(statistics.peak_live_bytes, statistics.live_bytes);
  return block->data;
}

void CachingAllocator::release(void* data) noexcept {
  if (data == nullptr) return;
  std::lock_guard lock(impl_->mutex);
  const auto found = impl_->live.find(data);
  if (found == impl_->live.end()) not_ours(data);
  Block* block = found->second;
  impl_->live.erase(found);
  ++impl_->statistics.releases;
  impl_->statistics.live_bytes -= block->requested;
  impl_->statistics.held_bytes -= block->bytes;
  impl_->free_block(block);
}

void CachingAllocator::trim() {
  std::lock_guard lock(impl_->mutex);
  impl_->trim();
}

AllocatorStatistics CachingAllocator::statistics() const {
  std::lock_guard lock(impl_->mutex);
  AllocatorStatistics result = impl_->statistics;
  result.largest_free_bytes = std::max(impl_->small.largest(), impl_->large.largest());
  return result;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(impl_->mutex);
  impl_->statistics.peak_live_bytes = impl_->statistics.live_bytes;
  impl_->statistics.peak_reserved_bytes = impl_->statistics.reserved_bytes;
}

}  // namespace tessera
