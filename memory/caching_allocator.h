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

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/memory/allocator.h"
#include "tessera/runtime/error.h"

namespace tessera {

// Ends the program: `block` was released but is not live. allocator.cc has all messages.
[[noreturn]] void not_live(std::string_view allocator, const void* block);

class CachingAllocator : public Allocator {
 public:
  explicit CachingAllocator(RawMemory& memory, const AllocatorSettings& settings = {})
      : CachingAllocator(settings, memory) {
    const size_t reserve = round_to_alignment(settings.reserve, memory.alignment());
    if (reserve > 0 && !take_reserve(reserve)) refuse(reserve);
  }

  // Frees all segments, including those with live blocks.
  ~CachingAllocator() override {
    for (Segment* segment : segments_) {
      for (Block* block = segment->first; block != nullptr;)
        delete std::exchange(block, block->after);
      if (segment->parent == nullptr) give_segment(segment);
      delete segment;
    }
  }

  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // If no memory is available, trims, tries once more, and then throws OutOfMemory with the bytes
  // requested, live and reserved and the limit. The allocator remains usable.
  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    std::lock_guard lock(mutex_);
    if (bytes > SIZE_MAX / 2) refuse(bytes);
    const size_t need = round_to_alignment(bytes, memory_.alignment());
    asked_ = false;
    Block* block = place(need);
    if (block == nullptr) {
      give_all_back();
      block = place(need);
    }
    if (block == nullptr) refuse(bytes);
    block->requested = bytes;
    live_.emplace(block->data, block);
    if (!asked_) ++statistics_.cache_hits;
    ++statistics_.allocations;
    statistics_.live_bytes += bytes;
    statistics_.held_bytes += block->bytes;
    statistics_.peak_live_bytes = std::max(statistics_.peak_live_bytes, statistics_.live_bytes);
    return block->data;
  }

  void release(void* data) noexcept override {
    if (data == nullptr) return;
    std::lock_guard lock(mutex_);
    const auto found = live_.find(data);
    if (found == live_.end()) not_live("caching", data);
    Block* block = found->second;
    live_.erase(found);
    ++statistics_.releases;
    statistics_.live_bytes -= block->requested;
    statistics_.held_bytes -= block->bytes;
    free_block(block);
  }

  void trim() override {
    std::lock_guard lock(mutex_);
    give_all_back();
  }

  AllocatorStatistics statistics() const override {
    std::lock_guard lock(mutex_);
    AllocatorStatistics result = statistics_;
    result.largest_free_bytes = largest_free();
    return result;
  }

  void reset_peak() override {
    std::lock_guard lock(mutex_);
    statistics_.peak_live_bytes = statistics_.live_bytes;
    statistics_.peak_reserved_bytes = statistics_.reserved_bytes;
  }

 private:
  // Completes the object, so that it is destroyed if the reserve cannot be allocated.
  CachingAllocator(const AllocatorSettings& settings, RawMemory& memory)
      : memory_(memory), settings_(settings) {}

  static constexpr size_t kSegmentGranularity = size_t{2} << 20;  // unit of large segments

  // Requests of fewer than `below` bytes are placed in chunks of `chunk` bytes.
  struct SmallSizes {
    size_t below, chunk;
  };
  static constexpr SmallSizes kSmall = {size_t{1} << 20, size_t{2} << 20};
  static constexpr SmallSizes kSmallOfWhole = {size_t{1} << 14, size_t{1} << 17};

  struct Segment;
  struct Pool;

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

  struct Pool {
    std::set<Block*, SmallestThenLowest> free;

    // Returns the smallest free block that fits, or nullptr; a whole segment only if it exceeds the
    // request by at most 1/64.
    Block* smallest_that_holds(size_t bytes) const {
      Block probe{nullptr, bytes, nullptr};
      for (auto found = free.lower_bound(&probe); found != free.end(); ++found)
        if (!(*found)->segment->whole || (*found)->bytes - bytes <= bytes / 64) return *found;
      return nullptr;
    }
  };

  Segment* add_segment(void* data, size_t bytes, Pool& pool, Block* parent, bool whole = false) {
    auto* segment =
        new Segment{static_cast<std::byte*>(data), bytes, &pool, parent, whole, nullptr};
    segment->first = new Block{segment->data, bytes, segment};
    segments_.push_back(segment);
    pool.free.insert(segment->first);
    return segment;
  }

  void remove_segment(Segment* segment) {
    segment->pool->free.erase(segment->first);
    std::erase(segments_, segment);
    if (segment->parent != nullptr) {
      free_block(segment->parent);
    } else {
      give_segment(segment);
    }
    delete segment->first;
    delete segment;
  }

  void give_segment(Segment* segment) {
    if (segment == in_range_) {
      give_pages(range_.begin, range_.begin + range_.bytes, range_.bytes);
      memory_.release_range(range_);
      in_range_ = nullptr;
      bare_.clear();
    } else {
      memory_.release(segment->data, segment->bytes);
      statistics_.reserved_bytes -= segment->bytes;
    }
  }

  // Returns the limit, which for a part of a device changes when devices are set up again.
  size_t limit() const { return std::min(settings_.limit, memory_.limit()); }

  void count_reserved(size_t bytes) {
    statistics_.reserved_bytes += bytes;
    statistics_.peak_reserved_bytes =
        std::max(statistics_.peak_reserved_bytes, statistics_.reserved_bytes);
  }

  // --- the range ---

  void open_range() {
    if (in_range_ != nullptr || !has_ranges_) return;
    range_ = memory_.reserve_range();
    has_ranges_ = range_.bytes > 0;
    if (!has_ranges_) return;
    bare_[range_.begin + range_.bytes] = range_.begin;
    in_range_ = add_segment(range_.begin, range_.bytes, large_, nullptr);
  }

  // Allocates whole pages, or one segment, before any block. Returns false if that is impossible.
  bool take_reserve(size_t bytes) {
    open_range();
    if (in_range_ == nullptr) return ask_machine(bytes, large_) != nullptr;
    if (bytes > range_.bytes) return false;
    std::byte* const end = page_at(range_.begin + bytes);
    return end == range_.begin || commit_pages(range_.begin, end, end);
  }

  bool is_in_range(const Block* block) const {
    return in_range_ != nullptr && block->data >= range_.begin &&
           block->data < range_.begin + range_.bytes;
  }
  std::byte* page_at(const std::byte* address) const {  // at or below the address
    return range_.begin + static_cast<size_t>(address - range_.begin) / range_.page * range_.page;
  }
  std::byte* page_from(const std::byte* address) const {  // at or above the address
    return page_at(address + (range_.page - 1));
  }

  // Commits all pages of the block that are not committed; returns false if that is impossible.
  bool commit(const Block* block, size_t growth) {
    for (auto hole = bare_.upper_bound(block->data);
         hole != bare_.end() && hole->second < block->end();
         hole = bare_.upper_bound(block->data)) {
      std::byte* const begin = std::max(hole->second, page_at(block->data));
      std::byte* const end = std::min(hole->first, page_from(block->end()));
      if (!commit_pages(begin, end, std::min(hole->first, page_from(begin + growth)))) return false;
    }
    return true;
  }

  // Commits [begin, end), or up to `most` if the limit allows it. All is in one run of `bare_`.
  bool commit_pages(std::byte* begin, std::byte* end, std::byte* most) {
    const auto take = [&](std::byte* to) {
      return memory_.commit(range_, begin, static_cast<size_t>(to - begin), kEagerTag);
    };
    const auto bytes = static_cast<size_t>(end - begin);
    // Decommits free pages between live blocks, too small for this one, before they accumulate.
    const size_t peak = std::max(statistics_.peak_live_bytes, statistics_.live_bytes + bytes);
    if (statistics_.reserved_bytes + bytes > 2 * peak) give_back(bytes);
    if (most > end && fits(static_cast<size_t>(most - begin)) && take(most)) {
      end = most;
    } else {
      if (!make_room(bytes)) return false;
      if (!take(end)) {  // other allocators may hold a part of the limit
        give_back(bytes);
        if (!take(end)) return false;
      }
    }
    asked_ = true;
    count_reserved(static_cast<size_t>(end - begin));
    const auto hole = bare_.lower_bound(end);
    std::byte* const before = hole->second;
    hole->second = end;
    if (hole->first == end) bare_.erase(hole);
    if (before < begin) bare_[begin] = before;
    return true;
  }

  void decommit_pages(std::byte* begin, std::byte* end) {
    const auto bytes = static_cast<size_t>(end - begin);
    memory_.decommit(range_, begin, bytes);
    statistics_.reserved_bytes -= bytes;
    if (const auto below = bare_.find(begin); below != bare_.end()) {
      begin = below->second;
      bare_.erase(below);
    }
    const auto above = bare_.upper_bound(end);
    if (above != bare_.end() && above->second == end)
      above->second = begin;
    else
      bare_[end] = begin;
  }

  // Decommits up to `wanted` bytes of the whole pages in [low, high), the highest first; returns
  // the number of bytes.
  size_t give_pages(std::byte* low, std::byte* high, size_t wanted) {
    size_t given = 0;
    while (high > low && given < wanted) {
      const auto hole = bare_.lower_bound(high);
      if (hole != bare_.end() && hole->second < high) {
        high = hole->second;
        continue;
      }
      std::byte* begin = hole == bare_.begin() ? low : std::max(low, std::prev(hole)->first);
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
    for (auto hole = bare_.upper_bound(from); hole != bare_.end() && hole->second < block->end();
         ++hole) {
      most = std::max(most, hole->second - from);
      from = hole->first;
    }
    return static_cast<size_t>(std::max(most, block->end() - from));
  }

  size_t largest_free() const {
    size_t most = 0;
    for (const Pool* pool : {&small_, &large_})
      for (auto block = pool->free.rbegin(); block != pool->free.rend() && (*block)->bytes > most;
           ++block)
        most = std::max(most, cached_bytes(*block));
    return most;
  }

  // --- segments ---

  bool fits(size_t bytes) const {
    const size_t most = limit();
    return bytes <= most && statistics_.reserved_bytes <= most - bytes;
  }

  // Returns whether each block is a segment of its own: under a limit without a range, so that no
  // live block keeps another from going back.
  bool whole_blocks() const { return in_range_ == nullptr && limit() != RawMemory::kNoLimit; }
  const SmallSizes& small_sizes() const { return whole_blocks() ? kSmallOfWhole : kSmall; }

  // Frees cached memory until the limit allows `bytes` more; returns whether it does then.
  bool make_room(size_t bytes) {
    const size_t most = limit();
    if (!fits(bytes) && bytes <= most) give_back(statistics_.reserved_bytes - (most - bytes));
    return fits(bytes);
  }

  // Frees unused segments, the oldest first; then free pages, those of the largest blocks first.
  void give_back(size_t wanted) {
    size_t given = 0;
    for (Segment* segment : std::vector(segments_)) {
      if (given >= wanted) return;
      if (segment->parent != nullptr || segment == in_range_ || !segment->unused()) continue;
      given += segment->bytes;
      remove_segment(segment);
    }
    for (const Pool* pool : {&large_, &small_})
      for (auto block = pool->free.rbegin(); block != pool->free.rend() && given < wanted; ++block)
        if (is_in_range(*block))
          given += give_pages(page_from((*block)->data), page_at((*block)->end()), wanted - given);
  }

  // Allocates a segment from the system; returns nullptr if the system or the limit refuses it.
  Block* ask_machine(size_t bytes, Pool& pool, bool whole = false) {
    if (!make_room(bytes)) return nullptr;
    void* data = nullptr;
    try {
      data = memory_.allocate(bytes, kEagerTag);
    } catch (const OutOfMemory&) {
      return nullptr;
    }
    asked_ = true;
    count_reserved(bytes);
    return add_segment(data, bytes, pool, nullptr, whole)->first;
  }

  // Returns a chunk for small requests, cut out of a free large block, or nullptr.
  Block* lend_chunk(size_t need) {
    const size_t chunk = small_sizes().chunk;
    Block* block = large_.smallest_that_holds(chunk);
    if (block == nullptr) block = large_.smallest_that_holds(need);
    if (block == nullptr) return nullptr;
    take_block(block, std::min(chunk, block->bytes));
    return add_segment(block->data, block->bytes, small_, block)->first;
  }

  Block* grow(Pool& pool, size_t need) {
    Block* block = nullptr;
    if (&pool == &small_) {
      if (settings_.reserve > 0 || in_range_ != nullptr) block = lend_chunk(need);
      if (block == nullptr) block = ask_machine(small_sizes().chunk, small_);
      if (block == nullptr) block = lend_chunk(need);
    } else if (limit() == RawMemory::kNoLimit) {
      give_back(need);  // unused segments are too small: make place for a larger one
      const size_t rounded = round_to_alignment(need, kSegmentGranularity);
      block = ask_machine(std::max(rounded, settings_.growth), large_);
    }
    if (block == nullptr) block = ask_machine(need, pool, whole_blocks());
    return block;
  }

  void give_all_back() {
    give_back(statistics_.reserved_bytes);
    if (in_range_ != nullptr && in_range_->unused()) remove_segment(in_range_);
  }

  // Returns a live block with committed pages, or nullptr.
  Block* place(size_t need) {
    open_range();
    const bool is_small = need < small_sizes().below;
    Pool& pool = is_small ? small_ : large_;
    Block* block = pool.smallest_that_holds(need);
    if (block == nullptr) block = grow(pool, need);
    if (block == nullptr) return nullptr;
    take_block(block, need);
    if (!is_in_range(block) || commit(block, is_small ? kSmall.chunk : settings_.growth))
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

  [[noreturn]] void refuse(size_t bytes) const;  // throws OutOfMemory
  // Returns the size of the largest request that would succeed now, as text; empty if unlimited.
  std::string what_fits() const;

  RawMemory& memory_;
  const AllocatorSettings settings_;
  mutable std::mutex mutex_;
  Pool small_, large_;
  std::vector<Segment*> segments_;  // oldest first
  std::unordered_map<void*, Block*> live_;
  AllocatorStatistics statistics_;
  bool asked_ = false;  // whether allocate() made a system allocation

  AddressRange range_;
  Segment* in_range_ = nullptr;  // the range's segment, while reserved
  bool has_ranges_ = true;       // false once the memory gave none
  // Runs of whole pages of the range that are not committed, as end -> begin. No two of them
  // touch.
  std::map<std::byte*, std::byte*> bare_;
};

}  // namespace tessera
