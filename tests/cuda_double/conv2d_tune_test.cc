// Plans of cuDNN measured on the double, in simulated time.
#include "testing.h"

#include "tessera/engine/eager.h"
#include "tessera/layers/conv2d/cuda/plans.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace cuda_double_tests {
namespace {

using tessera::CachedPlans;
using tessera::ConvPass;
using tessera::ConvRequest;
using tessera::ConvShape;
using tessera::CudaContext;
using tessera::Device;
using tessera::DeviceKind;
using tessera::EagerAllocatorScope;
using tessera::PlanCache;
using tessera::tune_conv;

constexpr Device kGpu{DeviceKind::gpu, 0};
const ConvShape kShape{
    .n = 4, .h = 12, .w = 12, .c = 16, .o = 24, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1};

class Conv2dTune : public WithSchedule {
 protected:
  CudaContext& where() { return tessera::as_cuda(tessera::context(kGpu)); }
  size_t live() { return where().memory().statistics().live_bytes; }
  tessera::testing::TempFolder folder_;
};
IN_EVERY_SCHEDULE(Conv2dTune);

TEST_P(Conv2dTune, MeasuresEveryPlanAndKeepsTheTimes) {
  PlanCache cache(folder_.path());
  const EagerAllocatorScope memory(kGpu, "direct");
  for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad}) {
    const ConvRequest request{pass, kShape};
    const size_t before = live();
    const CachedPlans plans = tune_conv(request, where(), cache);
    EXPECT_EQ(live(), before);
    ASSERT_EQ(plans.size(), 2u);  // both deterministic ones
    EXPECT_GT(plans[0].workspace_bytes, 0);
    EXPECT_EQ(plans[1].workspace_bytes, 0);
    EXPECT_GT(plans[1].microseconds, 0);
    EXPECT_GT(plans[0].microseconds, plans[1].microseconds);
    const std::string key = tessera::dnn_plan_key(tessera::conv_plan_text(request),
                                                  *where().properties(), where().target().gpu);
    EXPECT_EQ(PlanCache(folder_.path()).find(key), plans);
  }
}

TEST_P(Conv2dTune, APlanThatCannotRunHasNoTime) {
  PlanCache cache("");
  where().dnn();
  cuda_double_fail("dnn:run:1");
  const CachedPlans plans = tune_conv({ConvPass::forward, kShape}, where(), cache);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].microseconds, 0);
  EXPECT_GT(plans[1].microseconds, 0);
}

TEST_P(Conv2dTune, APlanWithoutMemoryForItsWorkspaceHasNoTime) {
  PlanCache cache("");
  const size_t tensors = sizeof(float) * (4 * 12 * 12 * (16 + 24) + 24 * 9 * 16);
  {
    const EagerAllocatorScope memory(kGpu, "direct", {.limit = tensors + 4096});
    const CachedPlans plans = tune_conv({ConvPass::forward, kShape}, where(), cache);
    ASSERT_EQ(plans.size(), 2u);
    EXPECT_EQ(plans[0].microseconds, 0);
    EXPECT_GT(plans[1].microseconds, 0);
  }
  const EagerAllocatorScope memory(kGpu, "direct", {.limit = tensors / 2});
  EXPECT_THROW(tune_conv({ConvPass::forward, kShape}, where(), cache), tessera::OutOfMemory);
}

TEST_P(Conv2dTune, NothingIsMeasuredForWhatCudnnIsNotAsked) {
  PlanCache cache("");
  EXPECT_TRUE(tune_conv({ConvPass::forward, kShape, tessera::DType::f64}, where(), cache).empty());
}

// Runs in a separate process, whose device stays lost.
TEST_P(Conv2dTune, ALostDeviceIsAnError) {
  const auto lose = [&] {
    PlanCache cache("");
    cuda_double_fail("sticky:kernel:1");
    EXPECT_THROW(tune_conv({ConvPass::forward, kShape}, where(), cache), tessera::DeviceLost);
    std::_Exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cuda_double_tests
