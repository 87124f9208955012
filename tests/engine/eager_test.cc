#include "tessera/engine/eager.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/op.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tensor.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(Eager, TensorsGiveTheirBytesBackAtOnce) {
  size_t before = eager_allocator(Device{}).statistics().live_bytes;
  {
    Tensor x = full({1000}, 1.0);
    EXPECT_EQ(eager_allocator(Device{}).statistics().live_bytes, before + 4000);
  }
  EXPECT_EQ(eager_allocator(Device{}).statistics().live_bytes, before);
}

TEST(Eager, AnAllocatorByNameWithALimitOfItsOwn) {
  const Tensor before = full({1000}, 1.0);  // keeps its old allocator
  EXPECT_THROW(set_eager_allocator(Device{}, "direkt"), ConfigError);
  set_eager_allocator(Device{}, "direct", {.limit = 8000});
  {
    const Tensor fits = full({1000}, 2.0);
    EXPECT_EQ(eager_allocator(Device{}).statistics().live_bytes, 4000u);
    EXPECT_THROW(full({2000}, 3.0), OutOfMemory);
    EXPECT_EQ((before + fits).to_vector<float>(), std::vector<float>(1000, 3));
  }
  EXPECT_EQ(eager_allocator(Device{}).statistics().live_bytes, 0u);
  EXPECT_EQ(eager_allocator(Device{}).statistics().reserved_bytes, 0u);
  set_eager_allocator(Device{}, "caching");
}

std::string out_of_memory(const std::function<void()>& call) {
  try {
    call();
  } catch (const OutOfMemory& error) {
    return error.what();
  }
  return "no OutOfMemory";
}

// The error names the op, its size and module path, the largest allocations, and what would fit.
TEST(Eager, AnOutOfMemoryErrorNamesOpPlaceAndHolders) {
  set_eager_allocator(Device{}, "direct", {.limit = 3 << 20});
  {
    const Tensor x = ones({1 << 18});  // 1 MiB
    Tensor kept;
    {
      const ModulePathScope block("block"), conv("conv1");
      kept = x * 2.0;
    }
    const std::string text = out_of_memory([&] {
      const ModulePathScope block("block"), act("act");
      expand(x, {2, 1 << 18});
    });
    EXPECT_EQ(
        text.find("expand at block.act: cpu:0: out of memory: 2097152 bytes requested, 2097152 "
                  "in use under a limit of 3145728; at most 1.00 MiB would fit; "),
        0u)
        << text;
    EXPECT_NE(text.find("\nmemory of eager tensors, largest first:"), text.npos) << text;
    EXPECT_NE(text.find("\n      1.00 MiB  scale at block.conv1"), text.npos) << text;
    EXPECT_NE(text.find("\n      1.00 MiB  fill"), text.npos) << text;
    EXPECT_EQ((x + 0.0).elements(), 1 << 18);  // still usable
  }
  set_eager_allocator(Device{}, "caching");
}

// An op for a device that does not exist.
struct NoParams {
  bool operator==(const NoParams&) const = default;
};
class Elsewhere final : public OpBase<Elsewhere> {
 public:
  std::string_view name() const override { return "elsewhere"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::gpu; }
  const NoParams params{};
};

TEST(Eager, ShapeAndDeviceErrorsNameThePlaceInTheModel) {
  const Tensor x = ones({4});
  const ModulePathScope block("block"), conv("conv1");
  try {
    expand(x, {2, 3});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_EQ(std::string(error.what()).find("expand at block.conv1: "), 0u) << error.what();
  }
  try {
    apply1(std::make_shared<Elsewhere>(), {x});
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(std::string(error.what()).find("elsewhere at block.conv1: this op has no kernel"), 0u)
        << error.what();
  }
}

// Forwards to its memory and counts.
class CountingAllocator final : public Allocator {
 public:
  CountingAllocator(RawMemory& memory, const AllocatorSettings&) : memory_(memory) {}
  void* allocate(size_t bytes) override {
    ++made;
    void* block = memory_.allocate(bytes, "mine");
    sizes_[block] = bytes;
    statistics_.live_bytes += bytes;
    return block;
  }
  void release(void* block) noexcept override {
    if (block == nullptr) return;
    statistics_.live_bytes -= sizes_[block];
    memory_.release(block, sizes_[block]);
  }
  void trim() override {}
  AllocatorStatistics statistics() const override { return statistics_; }
  void reset_peak() override {}
  inline static int made = 0;

 private:
  RawMemory& memory_;
  std::map<void*, size_t> sizes_;
  AllocatorStatistics statistics_;
};

// A limit holds even for an allocator without limits, because it allocates from a LimitedMemory.
TEST(Eager, AnAllocatorOfOnesOwnByNameKeepsALimit) {
  ASSERT_TRUE(add_allocator("counting", [](RawMemory& memory, const AllocatorSettings& settings) {
    return std::make_unique<CountingAllocator>(memory, settings);
  }));
  EXPECT_FALSE(add_allocator("counting", nullptr));
  EXPECT_EQ(allocator_names(), "caching, direct, counting");
  Allocator& before = eager_allocator(Device{});
  {
    const EagerAllocatorScope mine(Device{}, "counting", {.limit = 8000});
    const Tensor x = ones({1000});
    EXPECT_EQ(CountingAllocator::made, 1);
    const std::string text = out_of_memory([] { ones({1001}); });
    EXPECT_NE(
        text.find("4004 bytes requested, 4000 in use under a limit of 8000, held by mine 3.91 KiB"),
        text.npos)
        << text;
    EXPECT_NE(text.find("at most 3.91 KiB would fit"), text.npos) << text;
    EXPECT_EQ((x + 1.0).elements(), 1000);
  }
  EXPECT_EQ(&eager_allocator(Device{}), &before);
}

TEST(Eager, AnAllocatorOfOnesOwnMayBringItsMemory) {
  LimitedMemory memory(cpu_memory(), 1 << 20);
  const int made = CountingAllocator::made;
  set_eager_allocator(Device{}, std::make_unique<CountingAllocator>(memory, AllocatorSettings()));
  { const Tensor x = ones({1000}); }
  EXPECT_EQ(CountingAllocator::made, made + 1);
  EXPECT_EQ(memory.statistics().peak_bytes, 4000u);
  set_eager_allocator(Device{}, "caching");
  EXPECT_THROW(set_eager_allocator(Device{}, std::unique_ptr<Allocator>()), ConfigError);
}

TEST(Eager, MemoryIsReservedGrownAndTrimmed) {
  constexpr size_t kMiB = 1 << 20;
  RawMemory& machine = cpu_memory();
  eager_allocator(Device{}).trim();
  const size_t before = machine.statistics().live_bytes;
  const EagerAllocatorScope scope(Device{}, "caching",
                                  {.limit = 24 * kMiB, .reserve = 8 * kMiB, .growth = 4 * kMiB});
  const auto held = [&] { return machine.statistics().live_bytes - before; };
  EXPECT_EQ(held(), 8 * kMiB);  // up front
  {
    const Tensor first = ones({2, 1 << 20});  // 8 MiB: the reserve
    EXPECT_EQ(held(), 8 * kMiB);
    const Tensor second = ones({3, 1 << 18});  // 3 MiB: it grows by 4
    EXPECT_EQ(held(), 12 * kMiB);
    EXPECT_THROW(ones({14, 1 << 18}), OutOfMemory);
    const Tensor third = ones({13, 1 << 18});  // 13 MiB: the rest of the limit and 1 MiB of cache
    EXPECT_EQ(held(), 24 * kMiB);
  }
  EXPECT_EQ(held(), 24 * kMiB);  // cached
  eager_allocator(Device{}).trim();
  EXPECT_EQ(held(), 0u);
}

}  // namespace
}  // namespace tessera
