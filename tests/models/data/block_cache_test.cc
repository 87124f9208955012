#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "tessera/models/data/formats/hdf5_blocks.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr size_t kBytes = 8;

// A cache whose blocks contain their own numbers; records the order in which they are filled.
struct Filled {
  std::vector<int64_t> order;
  BlockCache cache;
  int64_t broken = -1;

  Filled(int64_t blocks, int64_t slots)
      : cache(blocks, kBytes, slots, [this](int64_t block, uint8_t* to) {
          order.push_back(block);
          if (block == broken) throw DataError("broken");
          std::memset(to, static_cast<int>(block), kBytes);
        }) {}
  int read(int64_t block) {
    std::array<uint8_t, 3> bytes{};
    cache.read(block, 2, bytes.size(), bytes.data());
    EXPECT_EQ(bytes[0], bytes[2]);
    return bytes[1];
  }
};

TEST(BlockCacheTest, WhatFitsIsFilledOnce) {
  Filled filled(5, 5);
  for (int round = 0; round < 3; ++round)
    for (int block : {3, 0, 4, 1, 2}) EXPECT_EQ(filled.read(block), block);
  EXPECT_EQ(filled.order, (std::vector<int64_t>{3, 0, 4, 1, 2}));
}

TEST(BlockCacheTest, WhatWasNotUsedForLongestGoes) {
  Filled filled(9, 3);
  for (int block : {1, 2, 3, 1, 4, 1, 3, 2}) EXPECT_EQ(filled.read(block), block);
  EXPECT_EQ(filled.order, (std::vector<int64_t>{1, 2, 3, 4, 2}));
}

TEST(BlockCacheTest, WhatCannotBeFilledIsNotKept) {
  Filled filled(4, 1);
  filled.broken = 2;
  EXPECT_EQ(filled.read(1), 1);
  EXPECT_THROW(filled.read(2), DataError);
  EXPECT_THROW(filled.read(2), DataError);
  EXPECT_EQ(filled.read(1), 1);
  filled.broken = -1;
  EXPECT_EQ(filled.read(2), 2);
}

TEST(BlockCacheTest, TheMemoryIsThatOfTheSlots) {
  EXPECT_GE(BlockCache::host_bytes(1000, 4096, 3), 3 * 4096u);
  EXPECT_LE(BlockCache::host_bytes(1000, 4096, 3), 3 * 4096u + 8192);
}

}  // namespace
}  // namespace tessera
