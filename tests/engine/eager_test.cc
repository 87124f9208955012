#include "tessera/engine/eager.h"

#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/tensor.h"
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
  const Tensor before = full({1000}, 1.0);  // lives on with the allocator it came from
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

}  // namespace
}  // namespace tessera
