#include "tessera/memory/regions.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(Region, TakesExactlyItsBytesAndGivesThemBack) {
  LimitedMemory memory(cpu_memory(), 1000);
  {
    Region arena("arena", 700, memory);
    EXPECT_EQ(arena.label(), "arena");
    EXPECT_EQ(arena.bytes(), 700u);
    std::memset(arena.data(), 1, 700);
    EXPECT_EQ(memory.statistics().live_bytes, 700u);
    try {
      Region slots("slots", 301, memory);
      FAIL() << "the limit must hold";
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 14), "slots region: ");
    }
  }
  EXPECT_EQ(memory.statistics().live_bytes, 0u);
}

TEST(Region, MovesItsBytesAlong) {
  LimitedMemory memory(cpu_memory(), 1000);
  Region a("a", 100, memory);
  std::byte* data = a.data();
  Region b(std::move(a));
  EXPECT_EQ(b.data(), data);
  Region c("c", 200, memory);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(memory.statistics().live_bytes, 100u);
  c = Region();
  EXPECT_EQ(memory.statistics().live_bytes, 0u);
  EXPECT_EQ(Region("none", 0, memory).data(), nullptr);
}

TEST(Region, StandsOnMemoryThatIsBrought) {
  alignas(64) static std::byte bytes[512];
  Region region("persistent", 200, ExternalMemory{bytes, 256});
  EXPECT_EQ(region.data(), bytes);
  EXPECT_THROW(Region("x", 257, ExternalMemory{bytes, 256}), ConfigError);
  EXPECT_THROW(Region("x", 64, ExternalMemory{bytes + 8, 128}), ConfigError);
  EXPECT_THROW(Region("x", 64, ExternalMemory{}), ConfigError);
  std::byte* const aligned = bytes + (256 - reinterpret_cast<uintptr_t>(bytes) % 256) % 256;
  EXPECT_NO_THROW(Region("x", 64, ExternalMemory{aligned, 64}, 256));
  EXPECT_THROW(Region("x", 64, ExternalMemory{aligned + 64, 64}, 256), ConfigError);
  EXPECT_EQ(Region("x", 0, ExternalMemory{}).bytes(), 0u);
}

}  // namespace
}  // namespace tessera
