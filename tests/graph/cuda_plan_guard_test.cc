// GPU kernels that access bytes outside of their buffers, on purpose.
#include "tessera/engine/op.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/compile.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/engine/gpu_schedule.h"

namespace tessera {
namespace {

enum class Manner { good, overruns, eats, leaves_some };

struct RudeParams {
  Manner manner;
  bool operator==(const RudeParams&) const = default;
};

// y = x, in one of several manners.
class RudeThere final : public OpBase<RudeThere> {
 public:
  explicit RudeThere(Manner manner) : params{manner} {}
  std::string_view name() const override { return "rude_there"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::gpu; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) {
      const int64_t n = in[0].elements();
      auto* x = in[0].as<float>();
      auto* y = out[0].as<float>();
      const auto written = static_cast<size_t>(params.manner == Manner::leaves_some ? n - 3 : n);
      ctx.copy_within(y, x, written * sizeof(float));
      if (params.manner == Manner::overruns) ctx.fill(y + n, 7, sizeof(float));
      if (params.manner == Manner::eats) ctx.fill(x, 7, sizeof(float));
    }
  }
  const RudeParams params;
};

class CudaPlanGuard : public OnGpu {
 protected:
  // Returns the error of a guarded step with such a kernel, else its result.
  static std::string message_of(Manner manner) {
    const Device gpu{DeviceKind::gpu, 0};
    const Tensor x = copy(ones({250}), gpu);
    const DeviceScope scope(gpu);
    auto step = compile(
        [&](const Tensor& in) {
          const Tensor y = in * 2.0;
          const Tensor z = apply1(std::make_shared<RudeThere>(manner), {y});
          return sum(z * y);
        },
        {.verify_plan = true});
    try {
      return "sum " + std::to_string(static_cast<int>(step(x).item<float>()));
    } catch (const OpError& error) {
      return error.what();
    }
  }
  static void expect_says(Manner manner, const std::string& part) {
    for (const char* text : {"eager", "lazy", "random:1"}) {
      const GpuSchedule schedule(text);
      const std::string message = message_of(manner);
      EXPECT_NE(message.find(part), message.npos) << text << ": " << message;
      EXPECT_NE(message.find("(rude_there)"), message.npos) << text << ": " << message;
    }
  }
};

TEST_F(CudaPlanGuard, SaysNothingOfAKernelThatKeepsToItsBytes) {
  EXPECT_EQ(message_of(Manner::good), "sum 1000");
}

TEST_F(CudaPlanGuard, NamesTheKernelThatWritesBeyondItsOutput) {
  expect_says(Manner::overruns, "wrote beyond the end of %");
}

TEST_F(CudaPlanGuard, NamesTheKernelThatLeavesElementsUnwritten) {
  expect_says(Manner::leaves_some, "left 3 of the 250 elements of its output %");
}

TEST_F(CudaPlanGuard, NamesTheKernelThatWritesToItsInput) {
  expect_says(Manner::eats, "wrote to its input 0, %");
}

}  // namespace
}  // namespace tessera
