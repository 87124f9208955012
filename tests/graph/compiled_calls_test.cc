// Calls of compiled functions: whose their results are, from which threads, in whose memory.
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/eager.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/arena.h"
#include "tessera/graph/compile.h"
#include "tessera/layers/sgd.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(CompiledCalls, ALaterCallLeavesTheResultsOfAnEarlierOneAsTheyAre) {
  auto f = compile([](const Tensors& x) { return Tensors{x[0] * 2.0, sum(x[0])}; });
  const auto check = [&] {
    const Tensors first = f(Tensors{full({3}, 1.0)}), second = f(Tensors{full({3}, 10.0)});
    f.step(f.steps() - 1).run();
    EXPECT_EQ(first[0].to_vector<float>(), (std::vector<float>{2, 2, 2}));
    EXPECT_EQ(first[1].item<float>(), 3);
    EXPECT_EQ(second[0].to_vector<float>(), (std::vector<float>{20, 20, 20}));
    EXPECT_EQ(second[1].item<float>(), 30);
  };
  check();
  const NoGradScope no_grad;
  check();
}

// The run would have updated the parameters already.
TEST(CompiledCalls, WithoutMemoryForItsResultsACallDoesNothing) {
  Store store(1);
  const Tensor w = store.parameter("w", {64}, Initializer::ones());
  Sgd sgd(store, store.parameters(), {});
  auto step = compile([&](const Tensor& x) {
    sgd.step(Tensors{x}, scalar(1));
    return x * 2.0;
  });
  const Tensor x = full({64}, 0.5);
  step(x);
  {
    const EagerAllocatorScope none({}, "direct", {.limit = 128});
    EXPECT_THROW(step(x), OutOfMemory);
  }
  EXPECT_EQ(w.to_vector<float>(), std::vector<float>(64, 0.5f));
}

}  // namespace
}  // namespace tessera
