#include "tessera/engine/store.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Store, ValuesDependOnSeedAndNameAlone) {
  auto values = [](uint64_t seed, bool reversed) {
    Store store(seed);
    if (reversed) store.parameter("b", {4}, Initializer::normal(1));
    Tensor a = store.parameter("a", {4}, Initializer::normal(1));
    return a.to_vector<float>();
  };
  EXPECT_EQ(values(1, false), values(1, true));
  EXPECT_NE(values(1, false), values(2, false));
}

}  // namespace
}  // namespace tessera
