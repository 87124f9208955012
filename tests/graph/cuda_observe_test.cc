// An observed program on a GPU: its kernels are issued one by one, with the same bits, and launched
// as one graph without an observer.
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

class CountingObserver final : public NodeObserver {
 public:
  void begin(size_t) override { ++began; }
  void end(size_t) override { ++ended; }
  int began = 0, ended = 0;
};

class CudaObserve : public OnGpu {};

TEST_F(CudaObserve, EveryKernelIsToldInEachWatchedRun) {
  const NoGradScope no_grad;
  const Device gpu{DeviceKind::gpu, 0};
  const Tensor x = copy(random_normal({9, 4}, 1), gpu), w = copy(random_normal({6, 4}, 2), gpu),
               b = copy(random_normal({6}, 3), gpu);
  const DeviceScope scope(gpu);
  auto compiled = compile([&](const Tensors&) { return Tensors{gelu(linear(x, w, b))}; });
  CompiledStep& step = compiled.prepare(Specs{});
  const auto result = [&] {
    step.run();
    return copy(step.output(0), Device{}).to_vector<float>();
  };
  const std::vector<float> right = result();
  const auto kernels = static_cast<int>(step.compiled_graph()->graph.nodes.size());
  CountingObserver observer;
  for (int run = 1; run <= 3; ++run) {  // the first run is not captured, the second would be
    step.program()->observe(&observer);
    EXPECT_EQ(result(), right);
    EXPECT_EQ(observer.began, run * kernels);
    EXPECT_EQ(observer.ended, run * kernels);
    step.program()->observe(nullptr);
    EXPECT_EQ(result(), right);
    EXPECT_EQ(observer.began, run * kernels);
  }
}

}  // namespace
}  // namespace tessera
