#include "tessera/engine/eager.h"

#include <gtest/gtest.h>

#include "tessera/engine/tensor.h"

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

}  // namespace
}  // namespace tessera
