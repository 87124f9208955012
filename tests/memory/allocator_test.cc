#include "tessera/memory/allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/memory/caching_allocator.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/memory/allocation_events.h"

namespace tessera {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// The host's memory, with failures on demand.
class FailingMemory : public RawMemory {
 public:
  int fail_next = 0;  // number of next calls that fail

  explicit FailingMemory(size_t alignment = kMemoryAlignment) : alignment_(alignment) {}
  std::string name() const override { return "test:0"; }
  size_t alignment() const override { return alignment_; }

 protected:
  void* do_allocate(size_t bytes) override {
    if (fail_next > 0) {
      --fail_next;
      return nullptr;
    }
    return std::aligned_alloc(alignment_, round_to_alignment(bytes, alignment_));
  }
  void do_deallocate(void* block, size_t) noexcept override { std::free(block); }

 private:
  const size_t alignment_;
};

// An allocator that fragments: splits the first free piece that is large enough, and never merges.
class NaiveAllocator {
 public:
  explicit NaiveAllocator(size_t bytes) { free_[0] = bytes; }

  bool allocate(size_t bytes, size_t& at) {
    for (const auto& [offset, size] : free_) {
      if (size < bytes) continue;
      at = offset;
      if (size > bytes) free_[offset + bytes] = size - bytes;
      free_.erase(at);
      return true;
    }
    return false;
  }
  void release(size_t at, size_t bytes) { free_[at] = bytes; }
  size_t free_bytes() const {
    size_t sum = 0;
    for (const auto& [offset, size] : free_) sum += size;
    return sum;
  }

 private:
  std::map<size_t, size_t> free_;
};

class EveryAllocator : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryAllocator, GivesAlignedBlocksThatDoNotOverlap) {
  FailingMemory memory;
  const auto allocator = make_allocator(GetParam(), memory);
  std::vector<std::pair<std::byte*, size_t>> blocks;
  for (size_t bytes : {1u, 64u, 65u, 1000u, 70'000u, 1'200'000u, 3u, 40'000'000u}) {
    auto* block = static_cast<std::byte*>(allocator->allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kMemoryAlignment, 0u);
    std::memset(block, static_cast<int>(blocks.size()), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].first[0], static_cast<std::byte>(i));
    EXPECT_EQ(blocks[i].first[blocks[i].second - 1], static_cast<std::byte>(i));
    allocator->release(blocks[i].first);
  }
  EXPECT_EQ(allocator->allocate(0), nullptr);
  allocator->release(nullptr);
  allocator->trim();
  EXPECT_EQ(memory.statistics().live_bytes, 0u);
}

// GPU libraries rely on the alignment of the memory, also under a limit and in a reserve.
TEST_P(EveryAllocator, BlocksAreAlignedAsThoseOfTheMemory) {
  FailingMemory memory(256);
  LimitedMemory limited(memory, 64 * kMiB);
  const auto allocator = make_allocator(GetParam(), limited, {.reserve = 4 * kMiB + 64});
  std::vector<void*> blocks;
  for (size_t bytes : {1u, 64u, 65u, 300u, 70'000u, 1'200'001u, 3u}) {
    blocks.push_back(allocator->allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 256, 0u) << bytes;
  }
  for (void* block : blocks) allocator->release(block);
}

TEST_P(EveryAllocator, CountsRequestedBytes) {
  const auto allocator = make_allocator(GetParam(), cpu_memory());
  void* a = allocator->allocate(100);
  void* b = allocator->allocate(50);
  allocator->release(a);
  AllocatorStatistics s = allocator->statistics();
  EXPECT_EQ(s.live_bytes, 50u);
  EXPECT_EQ(s.peak_live_bytes, 150u);
  EXPECT_EQ(s.allocations, 2u);
  EXPECT_EQ(s.releases, 1u);
  EXPECT_GE(s.reserved_bytes, s.held_bytes);
  EXPECT_GE(s.held_bytes, s.live_bytes);
  allocator->reset_peak();
  EXPECT_EQ(allocator->statistics().peak_live_bytes, 50u);
  allocator->release(b);
  EXPECT_EQ(allocator->statistics().live_bytes, 0u);
}

TEST_P(EveryAllocator, KeepsItsLimitAndStaysUsable) {
  const auto allocator = make_allocator(GetParam(), cpu_memory(), {.limit = 4 * kMiB});
  void* a = allocator->allocate(3 * kMiB);
  try {
    allocator->allocate(2 * kMiB);
    FAIL() << "the limit must hold";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("2097152 bytes requested, 3145728"), std::string::npos) << text;
    EXPECT_NE(text.find("4194304"), std::string::npos) << text;
  }
  allocator->release(allocator->allocate(kMiB));
  allocator->release(a);
  allocator->release(allocator->allocate(4 * kMiB));
  EXPECT_THROW(allocator->allocate(SIZE_MAX), OutOfMemory);
  EXPECT_LE(allocator->statistics().peak_reserved_bytes, 4 * kMiB);
}

TEST_P(EveryAllocator, WorksFromSeveralThreads) {
  const auto allocator = make_allocator(GetParam(), cpu_memory());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&allocator, t] {
      std::mt19937 numbers(t);
      std::vector<std::pair<unsigned char*, size_t>> mine;
      for (int i = 0; i < 400; ++i) {
        const size_t bytes = 1 + numbers() % 5000;
        auto* block = static_cast<unsigned char*>(allocator->allocate(bytes));
        std::memset(block, t, bytes);
        mine.emplace_back(block, bytes);
        if (mine.size() < 10) continue;
        const auto [old, size] = mine[numbers() % 10];
        std::erase(mine, std::pair(old, size));
        EXPECT_EQ(std::count(old, old + size, t), static_cast<ptrdiff_t>(size));
        allocator->release(old);
      }
      for (const auto& [block, bytes] : mine) allocator->release(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator->statistics().live_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(, EveryAllocator, ::testing::Values("caching", "direct"),
                         [](const auto& info) { return std::string(info.param); });

// The blocks have 1,020 of 1,024 MiB. Free neighbours merge in only one of the two memories.
TEST_P(EveryAllocator, SixtyBlocksOf17MiBFitIn1GiB) {
  FailingMemory machine;
  for (RawMemory* memory : {static_cast<RawMemory*>(&machine), &cpu_memory()}) {
    const auto allocator = make_allocator(GetParam(), *memory, {.limit = 1024 * kMiB});
    std::vector<void*> blocks;
    for (int i = 0; i < 60; ++i) ASSERT_NO_THROW(blocks.push_back(allocator->allocate(17 * kMiB)));
    EXPECT_THROW(allocator->allocate(17 * kMiB), OutOfMemory);
    // Every second block is released, and then one block fits in their place.
    for (int i = 0; i < 60; i += 2) allocator->release(blocks[i]);
    void* large = nullptr;
    ASSERT_NO_THROW(large = allocator->allocate(30 * 17 * kMiB));
    allocator->release(large);
    for (int i = 1; i < 60; i += 2) allocator->release(blocks[i]);
    allocator->trim();
    EXPECT_EQ(allocator->statistics().reserved_bytes, 0u);
  }
}

TEST(Allocators, AreMadeByName) {
  EXPECT_EQ(make_allocator("cache", cpu_memory()), nullptr);
  EXPECT_EQ(allocator_names(), "caching, direct");
}

TEST(CachingAllocator, AsksTheMachineOnlyInTheFirstStep) {
  FailingMemory memory;
  CachingAllocator allocator(memory);
  const auto step = [&] {
    std::vector<void*> live;
    for (size_t i = 0; i < 200; ++i) {
      live.push_back(allocator.allocate((i * 7919) % 3000 * 1000 + 1));
      if (i % 3 == 2) {
        allocator.release(live[live.size() - 2]);
        live.erase(live.end() - 2);
      }
    }
    for (void* block : live) allocator.release(block);
  };
  step();
  const uint64_t asked = memory.statistics().allocations;
  const uint64_t hits = allocator.statistics().cache_hits;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(memory.statistics().allocations, asked);
  EXPECT_EQ(allocator.statistics().cache_hits, hits + 2000);
}

TEST(CachingAllocator, MergesNeighboursInAnyOrder) {
  for (int order = 0; order < 6; ++order) {
    CachingAllocator allocator(cpu_memory(), {.limit = 32 * kMiB, .reserve = 32 * kMiB});
    void* blocks[] = {allocator.allocate(8 * kMiB), allocator.allocate(16 * kMiB),
                      allocator.allocate(8 * kMiB)};
    std::vector<int> turns = {0, 1, 2};
    for (int i = 0; i < order; ++i) std::next_permutation(turns.begin(), turns.end());
    for (int turn : turns) allocator.release(blocks[turn]);
    EXPECT_EQ(allocator.statistics().largest_free_bytes, 32 * kMiB);
    allocator.release(allocator.allocate(32 * kMiB));
  }
}

TEST(CachingAllocator, TakesTheSmallestHoleThatHolds) {
  CachingAllocator allocator(cpu_memory(), {.reserve = 30 * kMiB});
  void* first = allocator.allocate(10 * kMiB);
  void* wall = allocator.allocate(1 * kMiB);
  void* second = allocator.allocate(4 * kMiB);
  void* wall2 = allocator.allocate(1 * kMiB);
  allocator.release(first);
  allocator.release(second);
  EXPECT_EQ(allocator.allocate(3 * kMiB), second);
  EXPECT_EQ(allocator.allocate(9 * kMiB), first);
  static_cast<void>(wall);
  static_cast<void>(wall2);
}

TEST(CachingAllocator, ReserveServesAllSizesAndGrowthFollows) {
  FailingMemory memory;
  CachingAllocator allocator(memory, {.limit = 80 * kMiB, .reserve = 16 * kMiB});
  EXPECT_EQ(memory.statistics().live_bytes, 16 * kMiB);
  void* small = allocator.allocate(100);
  void* large = allocator.allocate(10 * kMiB);
  EXPECT_EQ(memory.statistics().allocations, 1u);
  void* more = allocator.allocate(20 * kMiB);
  EXPECT_GT(memory.statistics().live_bytes, 16 * kMiB);
  allocator.release(small);
  allocator.release(large);
  allocator.release(more);
  allocator.trim();
  EXPECT_EQ(memory.statistics().live_bytes, 0u);
  EXPECT_THROW(CachingAllocator(memory, {.limit = kMiB, .reserve = 2 * kMiB}), OutOfMemory);
}

TEST(CachingAllocator, TrimKeepsWhatIsLive) {
  FailingMemory memory;
  CachingAllocator allocator(memory);
  void* kept = allocator.allocate(100);
  allocator.release(allocator.allocate(50 * kMiB));
  allocator.trim();
  EXPECT_EQ(memory.statistics().live_bytes, allocator.statistics().reserved_bytes);
  EXPECT_LE(allocator.statistics().reserved_bytes, 2 * kMiB);
  std::memset(kept, 1, 100);
}

TEST(CachingAllocator, TrimsAndTriesAgainWhenTheMachineRefuses) {
  FailingMemory memory;
  CachingAllocator allocator(memory);
  std::vector<void*> small;
  for (int i = 0; i < 100; ++i) small.push_back(allocator.allocate(100'000));
  for (void* block : small) allocator.release(block);
  const size_t cached = memory.statistics().live_bytes;
  EXPECT_GT(cached, 0u);
  memory.fail_next = 2;  // the segment, then the exact size
  void* block = allocator.allocate(5 * kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(memory.statistics().failures, 2u);
  EXPECT_EQ(memory.statistics().releases, (cached + 2 * kMiB - 1) / (2 * kMiB));
  memory.fail_next = 100;
  EXPECT_THROW(allocator.allocate(50 * kMiB), OutOfMemory);
  memory.fail_next = 0;
  allocator.release(allocator.allocate(50 * kMiB));
  allocator.release(block);
}

// Steps with changing sizes (other batches, other images), as in long runs.
TEST(CachingAllocator, SurvivesWhatFragmentsANaiveAllocator) {
  constexpr size_t kLimit = 64 * kMiB;
  NaiveAllocator naive(kLimit);
  FailingMemory memory;
  CachingAllocator ours(memory, {.limit = kLimit});
  bool naive_failed = false;
  size_t naive_free = 0;
  for (size_t bytes = 10'000; bytes < 9 * kMiB; bytes += bytes / 7) {
    const size_t count = 40 * kMiB / bytes;
    std::vector<size_t> places;
    std::vector<void*> blocks;
    for (size_t i = 0; i < count; ++i) {
      size_t at = 0;
      if (!naive_failed && naive.allocate(bytes, at)) {
        places.push_back(at);
      } else if (!naive_failed) {
        naive_failed = true;
        naive_free = naive.free_bytes();
      }
      ASSERT_NO_THROW(blocks.push_back(ours.allocate(bytes))) << bytes;
    }
    for (size_t at : places) naive.release(at, bytes);
    for (void* block : blocks) ours.release(block);
  }
  EXPECT_TRUE(naive_failed);
  EXPECT_GT(naive_free, 20 * kMiB);  // it failed with this much free
  EXPECT_LE(ours.statistics().peak_reserved_bytes, kLimit);
}

// Tests sizes from 64 bytes to 4 MiB, each power of two as likely, at two thirds of the limit.
void random_mix(size_t reserve) {
  constexpr size_t kLimit = 256 * kMiB;
  FailingMemory memory;
  CachingAllocator allocator(memory, {.limit = kLimit, .reserve = reserve});
  std::mt19937 numbers(1);
  std::map<void*, size_t> live;
  size_t live_bytes = 0;
  for (int i = 0; i < 20'000; ++i) {
    const size_t bytes = size_t{1} << (6 + numbers() % 16);
    const size_t wanted = bytes + numbers() % bytes;
    while (live_bytes + wanted > kLimit / 3 * 2) {
      auto victim = live.begin();
      std::advance(victim, numbers() % live.size());
      live_bytes -= victim->second;
      allocator.release(victim->first);
      live.erase(victim);
    }
    void* block = nullptr;
    ASSERT_NO_THROW(block = allocator.allocate(wanted)) << "after " << i << " allocations";
    ASSERT_TRUE(live.emplace(block, wanted).second);
    live_bytes += wanted;
  }
  // No two live blocks overlap.
  const std::byte* end = nullptr;
  for (const auto& [block, bytes] : live) {
    ASSERT_GE(static_cast<const std::byte*>(block), end);
    end = static_cast<const std::byte*>(block) + bytes;
  }
  EXPECT_EQ(allocator.statistics().live_bytes, live_bytes);
}

// Caching needs nearly as little memory as a system allocation per block, for any order of
// requests.
TEST(CachingAllocator, NeedsNoMoreThanDirectForRandomEvents) {
  FailingMemory machine;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const testing_events::AllocationEvents events = testing_events::random_events(seed);
    for (RawMemory* memory : {static_cast<RawMemory*>(&machine), &cpu_memory()}) {
      const size_t before = memory->statistics().live_bytes;
      CachingAllocator allocator(*memory, {.limit = testing_events::most_for_caching(events)});
      ASSERT_EQ(testing_events::failures(allocator, events, true), 0)
          << "seed " << seed << " on " << memory->name() << ", direct needs "
          << testing_events::min_limit_of_direct(events);
      EXPECT_EQ(memory->statistics().live_bytes - before, allocator.statistics().reserved_bytes);
      allocator.trim();
      EXPECT_EQ(memory->statistics().live_bytes, before);
    }
  }
}

// Host memory can return pages from the middle.
TEST(CachingAllocator, FreePagesMakeRoomBeforeItRefuses) {
  CachingAllocator allocator(cpu_memory(), {.limit = 10 * kMiB, .growth = 4 * kMiB});
  void* blocks[10];
  for (void*& block : blocks) block = allocator.allocate(kMiB);
  for (int i = 0; i < 10; i += 2) allocator.release(blocks[i]);
  void* large = allocator.allocate(5 * kMiB);  // five holes of one
  std::memset(large, 1, 5 * kMiB);
  EXPECT_EQ(allocator.statistics().reserved_bytes, 10 * kMiB);
  EXPECT_EQ(allocator.statistics().largest_free_bytes, 0u);
  EXPECT_THROW(allocator.allocate(1), OutOfMemory);
  allocator.release(large);
  EXPECT_EQ(allocator.statistics().largest_free_bytes, 5 * kMiB);
  const uint64_t hits = allocator.statistics().cache_hits;
  void* again = allocator.allocate(5 * kMiB);  // no system allocation
  EXPECT_EQ(allocator.statistics().cache_hits, hits + 1);
  allocator.release(again);
  for (int i = 1; i < 10; i += 2) allocator.release(blocks[i]);
}

// Every second block of 1, 2, 4 ... MiB stays, so that no hole is large enough for the next size.
TEST(CachingAllocator, KeepsAtMostTwiceThePeakWithoutALimit) {
  LimitedMemory memory(cpu_memory(), RawMemory::kNoLimit);
  CachingAllocator allocator(memory, {.growth = kMiB});
  std::set<void*> live;  // by address
  for (size_t bytes = kMiB; bytes <= 16 * kMiB; bytes *= 2) {
    while (allocator.statistics().live_bytes < 64 * kMiB) live.insert(allocator.allocate(bytes));
    bool keep = true;
    for (auto block = live.begin(); block != live.end(); keep = !keep) {
      if (!keep) allocator.release(*block);
      block = keep ? std::next(block) : live.erase(block);
    }
  }
  const AllocatorStatistics s = allocator.statistics();
  EXPECT_EQ(s.peak_live_bytes, 64 * kMiB);
  EXPECT_LE(s.peak_reserved_bytes, 2 * s.peak_live_bytes + 16 * kMiB);
  EXPECT_EQ(memory.statistics().live_bytes, s.reserved_bytes);
  for (void* block : live) allocator.release(block);
}

TEST(CachingAllocator, SurvivesARandomMixWhileItGrows) { random_mix(0); }

TEST(CachingAllocator, SurvivesARandomMixInItsReserve) { random_mix(256 * kMiB); }

}  // namespace
}  // namespace tessera
