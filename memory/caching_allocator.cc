#include "tessera/memory/caching_allocator.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
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

constexpr size_t kSegmentGranularity = size_t{2} << 20;  // unit of large segments

// Requests of fewer than `below` bytes are placed in chunks of `chunk` bytes.
struct SmallSizes {
  size_t below, chunk;
};
constexpr SmallSizes kSmall = {size_t{1} << 20, size_t{2} << 20};
constexpr SmallSizes kSmallOfWhole = {size_t{1} << 14, size_t{1} << 17};

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

  std::byte* end() const { return data + bytes; }
};

struct SmallestThenLowest {
  bool operator()(const Block* a, const Block* b) const {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
  }
};

struct Pool {
  std::set<Block*, SmallestThenLowest> free;

  Block* smallest_that_holds(size_t bytes) const;
};

// A range of addresses, a system allocation or (if parent is set) a live block of the large pool
// lent to the small one. A whole segment is never split.
struct Segment {
  std::byte* data;
  size_t bytes;
  Pool* pool;
  Block* parent;
  bool whole;
  Block* first;

  bool unused() const { return !first->live && first->after == nullptr; }
};

// Returns the smallest free block that fits, or nullptr; a whole segment only if it exceeds the
// request by at most 1/64.
Block* Pool::smallest_that_holds(size_t bytes) const {
  Block probe{nullptr, bytes, nullptr};
  for (auto found = free.lower_bound(&probe); found != free.end(); ++found)
    if (!(*found)->segment->whole || (*found)->bytes - bytes <= bytes / 64) return *found;
  return nullptr;
}

[[noreturn]] void not_from_here(const void* block) {
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
  bool asked = false;  // whether allocate() made a system allocation

  AddressRange range;
  Segment* in_range = nullptr;  // the range's segment, while reserved
  bool has_ranges = true;       // false once the memory gave none
  // Runs of whole pages of the range that are not committed, as end -> begin. No two of them touch.
  std::map<std::byte*, std::byte*> bare;

  Impl(RawMemory& raw, const AllocatorSettings& wanted) : memory(raw), settings(wanted) {}

  ~Impl() {
    for (Segment* segment : segments) {
      for (Block* block = segment->first; block != nullptr;)
        delete std::exchange(block, block->after);
      if (segment->parent == nullptr) give_segment(segment);
      delete segment;
    }
  }

  Segment* add_segment(void* data, size_t bytes, Pool& pool, Block* parent, bool whole = false) {
    auto* segment =
        new Segment{static_cast<std::byte*>(data), bytes, &pool, parent, whole, nullptr};
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
      give_segment(segment);
    }
    delete segment->first;
    delete segment;
  }

  void give_segment(Segment* segment) {
    if (segment == in_range) {
      give_pages(range.begin, range.begin + range.bytes, range.bytes);
      memory.release_range(range);
      in_range = nullptr;
      bare.clear();
    } else {
      memory.release(segment->data, segment->bytes);
      statistics.reserved_bytes -= segment->bytes;
    }
  }

  // Returns the limit, which for a part of a device changes when devices are set up again.
  size_t limit() const { return std::min(settings.limit, memory.limit()); }

  void count_reserved(size_t bytes) {
    statistics.reserved_bytes += bytes;
    statistics.peak_reserved_bytes =
        std::max(statistics.peak_reserved_bytes, statistics.reserved_bytes);
  }

  // --- the range ---

  void open_range() {
    if (in_range != nullptr || !has_ranges) return;
    range = memory.reserve_range();
    has_ranges = range.bytes > 0;
    if (!has_ranges) return;
    bare[range.begin + range.bytes] = range.begin;
    in_range = add_segment(range.begin, range.bytes, large, nullptr);
  }

  // Allocates whole pages, or one segment, before any block. Returns false if that is impossible.
  bool take_reserve(size_t bytes) {
    open_range();
    if (in_range == nullptr) return ask_machine(bytes, large) != nullptr;
    if (bytes > range.bytes) return false;
    std::byte* const end = page_at(range.begin + bytes);
    return end == range.begin || commit_pages(range.begin, end, end);
  }

  bool is_in_range(const Block* block) const {
    return in_range != nullptr && block->data >= range.begin &&
           block->data < range.begin + range.bytes;
  }
  std::byte* page_at(const std::byte* address) const {  // at or below the address
    return range.begin + static_cast<size_t>(address - range.begin) / range.page * range.page;
  }
  std::byte* page_from(const std::byte* address) const {  // at or above the address
    return page_at(address + (range.page - 1));
  }

  // Commits all pages of the block that are not committed; returns false if that is impossible.
  bool commit(const Block* block, size_t growth) {
    for (auto hole = bare.upper_bound(block->data);
         hole != bare.end() && hole->second < block->end(); hole = bare.upper_bound(block->data)) {
      std::byte* const begin = std::max(hole->second, page_at(block->data));
      std::byte* const end = std::min(hole->first, page_from(block->end()));
      if (!commit_pages(begin, end, std::min(hole->first, page_from(begin + growth)))) return false;
    }
    return true;
  }

  // Commits [begin, end), or up to `most` if the limit allows it. All is in one run of `bare`.
  bool commit_pages(std::byte* begin, std::byte* end, std::byte* most) {
    const auto take = [&](std::byte* to) {
      return memory.commit(range, begin, static_cast<size_t>(to - begin), kEagerTag);
    };
    const auto bytes = static_cast<size_t>(end - begin);
    // Decommits free pages between live blocks, too small for this one, before they accumulate.
    const size_t peak = std::max(statistics.peak_live_bytes, statistics.live_bytes + bytes);
    if (statistics.reserved_bytes + bytes > 2 * peak) give_back(bytes);
    if (most > end && fits(static_cast<size_t>(most - begin)) && take(most)) {
      end = most;
    } else {
      if (!make_room(bytes)) return false;
      if (!take(end)) {  // other allocators may hold a part of the limit
        give_back(bytes);
        if (!take(end)) return false;
      }
    }
    asked = true;
    count_reserved(static_cast<size_t>(end - begin));
    const auto hole = bare.lower_bound(end);
    std::byte* const before = hole->second;
    hole->second = end;
    if (hole->first == end) bare.erase(hole);
    if (before < begin) bare[begin] = before;
    return true;
  }

  void decommit_pages(std::byte* begin, std::byte* end) {
    const auto bytes = static_cast<size_t>(end - begin);
    memory.decommit(range, begin, bytes);
    statistics.reserved_bytes -= bytes;
    if (const auto below = bare.find(begin); below != bare.end()) {
      begin = below->second;
      bare.erase(below);
    }
    const auto above = bare.upper_bound(end);
    if (above != bare.end() && above->second == end)
      above->second = begin;
    else
      bare[end] = begin;
  }

  // Decommits up to `wanted` bytes of the whole pages in [low, high), the highest first; returns
  // the number of bytes.
  size_t give_pages(std::byte* low, std::byte* high, size_t wanted) {
    size_t given = 0;
    while (high > low && given < wanted) {
      const auto hole = bare.lower_bound(high);
      if (hole != bare.end() && hole->second < high) {
        high = hole->second;
        continue;
      }
      std::byte* begin = hole == bare.begin() ? low : std::max(low, std::prev(hole)->first);
      if (const size_t left = wanted - given; static_cast<size_t>(high - begin) > left)
        begin = page_at(high - left);
      given += static_cast<size_t>(high - begin);
      decommit_pages(begin, high);
      high = begin;
    }
    return given;
  }

  // Returns the bytes of the longest committed run of a free block.
  size_t cached_bytes(const Block* block) const {
    if (!is_in_range(block)) return block->bytes;
    ptrdiff_t most = 0;
    std::byte* from = block->data;
    for (auto hole = bare.upper_bound(from); hole != bare.end() && hole->second < block->end();
         ++hole) {
      most = std::max(most, hole->second - from);
      from = hole->first;
    }
    return static_cast<size_t>(std::max(most, block->end() - from));
  }

  size_t largest_free() const {
    size_t most = 0;
    for (const Pool* pool : {&small, &large})
      for (auto block = pool->free.rbegin(); block != pool->free.rend() && (*block)->bytes > most;
           ++block)
        most = std::max(most, cached_bytes(*block));
    return most;
  }

  // --- segments ---

  bool fits(size_t bytes) const {
    const size_t most = limit();
    return bytes <= most && statistics.reserved_bytes <= most - bytes;
  }

  // Returns whether each block is a segment of its own: under a limit without a range, so that no
  // live block keeps another from going back.
  bool whole_blocks() const { return in_range == nullptr && limit() != RawMemory::kNoLimit; }
  const SmallSizes& small_sizes() const { return whole_blocks() ? kSmallOfWhole : kSmall; }

  // Frees cached memory until the limit allows `bytes` more; returns whether it does then.
  bool make_room(size_t bytes) {
    const size_t most = limit();
    if (!fits(bytes) && bytes <= most) give_back(statistics.reserved_bytes - (most - bytes));
    return fits(bytes);
  }

  // Frees unused segments, the oldest first; then free pages, those of the largest blocks first.
  void give_back(size_t wanted) {
    size_t given = 0;
    for (Segment* segment : std::vector(segments)) {
      if (given >= wanted) return;
      if (segment->parent != nullptr || segment == in_range || !segment->unused()) continue;
      given += segment->bytes;
      remove_segment(segment);
    }
    for (const Pool* pool : {&large, &small})
      for (auto block = pool->free.rbegin(); block != pool->free.rend() && given < wanted; ++block)
        if (is_in_range(*block))
          given += give_pages(page_from((*block)->data), page_at((*block)->end()), wanted - given);
  }

  // Allocates a segment from the system; returns nullptr if the system or the limit refuses it.
  Block* ask_machine(size_t bytes, Pool& pool, bool whole = false) {
    if (!make_room(bytes)) return nullptr;
    void* data = nullptr;
    try {
      data = memory.allocate(bytes, kEagerTag);
    } catch (const OutOfMemory&) {
      return nullptr;
    }
    asked = true;
    count_reserved(bytes);
    return add_segment(data, bytes, pool, nullptr, whole)->first;
  }

  // Returns a chunk for small requests, cut out of a free large block, or nullptr.
  Block* lend_chunk(size_t need) {
    const size_t chunk = small_sizes().chunk;
    Block* block = large.smallest_that_holds(chunk);
    if (block == nullptr) block = large.smallest_that_holds(need);
    if (block == nullptr) return nullptr;
    take_block(block, std::min(chunk, block->bytes));
    return add_segment(block->data, block->bytes, small, block)->first;
  }

  Block* grow(Pool& pool, size_t need) {
    Block* block = nullptr;
    if (&pool == &small) {
      if (settings.reserve > 0 || in_range != nullptr) block = lend_chunk(need);
      if (block == nullptr) block = ask_machine(small_sizes().chunk, small);
      if (block == nullptr) block = lend_chunk(need);
    } else if (limit() == RawMemory::kNoLimit) {
      give_back(need);  // unused segments are too small: make place for a larger one
      const size_t rounded =
          (need + kSegmentGranularity - 1) / kSegmentGranularity * kSegmentGranularity;
      block = ask_machine(std::max(rounded, settings.growth), large);
    }
    if (block == nullptr) block = ask_machine(need, pool, whole_blocks());
    return block;
  }

  void trim() {
    give_back(statistics.reserved_bytes);
    if (in_range != nullptr && in_range->unused()) remove_segment(in_range);
  }

  // Returns a live block with committed pages, or nullptr.
  Block* place(size_t need) {
    open_range();
    const bool is_small = need < small_sizes().below;
    Pool& pool = is_small ? small : large;
    Block* block = pool.smallest_that_holds(need);
    if (block == nullptr) block = grow(pool, need);
    if (block == nullptr) return nullptr;
    take_block(block, need);
    if (!is_in_range(block) || commit(block, is_small ? kSmall.chunk : settings.growth))
      return block;
    free_block(block);
    return nullptr;
  }

  // Makes the first `bytes` of a free block live; the rest stays free.
  void take_block(Block* block, size_t bytes) {
    Pool& pool = *block->segment->pool;
    pool.free.erase(block);
    if (block->bytes > bytes && !block->segment->whole) {
      auto* rest =
          new Block{block->data + bytes, block->bytes - bytes, block->segment, block, block->after};
      if (rest->after != nullptr) rest->after->before = rest;
      block->after = rest;
      block->bytes = bytes;
      pool.free.insert(rest);
    }
    block->live = true;
  }

  // Merges a block with its free neighbours; an unused lent chunk returns to the large pool.
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
    const size_t most = limit();
    const std::string under = most == RawMemory::kNoLimit ? "" : fmt::format(", limit {}", most);
    throw OutOfMemory(
        fmt::format("{}: out of memory: {} bytes requested, {} live, {} reserved{}, largest free "
                    "block {}; {}use a smaller batch or raise the limit",
                    memory.name(), bytes, statistics.live_bytes, statistics.reserved_bytes, under,
                    largest_free(), what_fits()));
  }

  // Returns the size of the largest request that would succeed now, as text; empty if unlimited.
  std::string what_fits() const {
    size_t from_machine =
        std::min(limit() - std::min(limit(), statistics.reserved_bytes), memory.available());
    if (from_machine == RawMemory::kNoLimit) return "";
    if (in_range != nullptr) from_machine = from_machine / range.page * range.page;
    const size_t most = std::max(largest_free(), from_machine);
    return fmt::format("at most {} would fit; ", byte_text(static_cast<int64_t>(most)));
  }
};

CachingAllocator::CachingAllocator(RawMemory& memory, const AllocatorSettings& settings)
    : impl_(std::make_unique<Impl>(memory, settings)) {
  const size_t reserve = round_to_alignment(settings.reserve, memory.alignment());
  if (reserve > 0 && !impl_->take_reserve(reserve)) impl_->refuse(reserve);
}

CachingAllocator::~CachingAllocator() = default;

void* CachingAllocator::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  std::lock_guard lock(impl_->mutex);
  if (bytes > SIZE_MAX / 2) impl_->refuse(bytes);
  const size_t need = round_to_alignment(bytes, impl_->memory.alignment());
  impl_->asked = false;
  Block* block = impl_->place(need);
  if (block == nullptr) {
    impl_->trim();
    block = impl_->place(need);
  }
  if (block == nullptr) impl_->refuse(bytes);
  block->requested = bytes;
  impl_->live.emplace(block->data, block);
  AllocatorStatistics& statistics = impl_->statistics;
  if (!impl_->asked) ++statistics.cache_hits;
  ++statistics.allocations;
  statistics.live_bytes += bytes;
  statistics.held_bytes += block->bytes;
  statistics.peak_live_bytes = std::max(statistics.peak_live_bytes, statistics.live_bytes);
  return block->data;
}
void CachingAllocator::release(void* data) noexcept {
  if (data == nullptr) return;
  std::lock_guard lock(impl_->mutex);
  const auto found = impl_->live.find(data);
  if (found == impl_->live.end()) not_from_here(data);
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
  result.largest_free_bytes = impl_->largest_free();
  return result;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(impl_->mutex);
  impl_->statistics.peak_live_bytes = impl_->statistics.live_bytes;
  impl_->statistics.peak_reserved_bytes = impl_->statistics.reserved_bytes;
}

}  // namespace tessera
