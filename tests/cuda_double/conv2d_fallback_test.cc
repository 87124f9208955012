// Plans of cuDNN that fail when made or run, planted in the double, and their replacements.
#include <optional>
#include <string>

#include "testing.h"

#include "tessera/engine/prepare.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"

namespace cuda_double_tests {
namespace {

using namespace tessera;

constexpr Device kGpu{DeviceKind::gpu, 0};

// The convolution of a request, prepared and run directly, so that each call has its own kernel.
class Conv2dFallback : public WithSchedule {
 protected:
  void SetUp() override {
    WithSchedule::SetUp();
    set_log_sink([this](LogLevel, std::string_view text) { warnings_.emplace_back(text); });
    expected_ = conv2d(x_, w_, {.padding = 1}).to_vector<float>();
  }
  void TearDown() override {
    set_log_sink({});
    WithSchedule::TearDown();
  }

  CudaContext& where() { return as_cuda(context(kGpu)); }
  std::unique_ptr<Kernel> prepare() {
    const Algorithm chosen =
        dnn_algorithms(request_, *where().properties(), settings().gpu).front();
    EXPECT_EQ(chosen.name, "cudnn");
    scratch_ = allocate_storage(chosen.scratch_bytes, kGpu, true);
    return dnn_kernel(request_, chosen, where());
  }
  std::vector<float> run(Kernel& kernel) {
    const Tensor x = copy(x_, kGpu), w = copy(w_, kGpu), y = copy(y_, kGpu);
    const Buffer in[] = {{x.impl()->data(), x.spec()}, {w.impl()->data(), w.spec()}};
    const Buffer out[] = {{y.impl()->data(), y.spec()}};
    kernel.run(where(), in, out, {scratch_->pointer, {}});
    return copy(y, Device{}).to_vector<float>();
  }
  void expect_right(Kernel& kernel) {
    const std::vector<float> found = run(kernel);
    for (size_t i = 0; i < expected_.size(); ++i) ASSERT_NEAR(found[i], expected_[i], 1e-4);
  }
  void expect_one_warning(const std::string& part) {
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_NE(warnings_[0].find(part), std::string::npos) << warnings_[0];
    EXPECT_NE(warnings_[0].find(conv_text(request_)), std::string::npos) << warnings_[0];
  }

  const Tensor x_ = random_uniform({2, 6, 5, 4}, 1, -1, 1),
               w_ = random_uniform({8, 3, 3, 4}, 2, -1, 1), y_ = full({2, 6, 5, 8}, 7);
  const ConvRequest request_{
      ConvPass::forward,
      {.n = 2, .h = 6, .w = 5, .c = 4, .o = 8, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1}};
  std::shared_ptr<Storage> scratch_;
  std::vector<float> expected_;
  std::vector<std::string> warnings_;
};
IN_EVERY_SCHEDULE(Conv2dFallback);

TEST_P(Conv2dFallback, APlanThatCannotRunIsFollowedByTheNext) {
  const auto kernel = prepare();
  cuda_double_fail("dnn:run:1");
  expect_right(*kernel);
  EXPECT_STREQ(cuda_double_failed_call(), "cudnnBackendExecute");
  expect_one_warning("cudnnBackendExecute");
  EXPECT_NE(warnings_[0].find("; its engine"), std::string::npos) << warnings_[0];
  expect_right(*kernel);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_P(Conv2dFallback, TheLastPlanIsFollowedByTheKernelOfOurOwn) {
  const SettingsScope none({.gpu = {.workspace = 0}});  // only one engine needs no workspace
  const auto kernel = prepare();
  cuda_double_fail("dnn:run:1");
  expect_right(*kernel);
  expect_one_warning("a kernel without cuDNN is used from now on");
  cuda_double_fail("dnn:run:1");
  expect_right(*kernel);
  EXPECT_STREQ(cuda_double_failed_call(), "") << "cuDNN was asked again";
}

TEST_P(Conv2dFallback, APlanThatCannotBeMadeIsFollowedByTheNext) {
  prepare();  // the list of plans is cached from now on
  cuda_double_fail("dnn:plan:1");
  const auto kernel = prepare();
  expect_one_warning("cudnnBackendFinalize");
  expect_right(*kernel);
}

// If a kernel has run once, a later failure does not change the algorithm.
TEST_P(Conv2dFallback, AfterTheFirstRunAFailureIsAnError) {
  const auto kernel = prepare();
  expect_right(*kernel);
  cuda_double_fail("dnn:run:1");
  EXPECT_THROW(run(*kernel), DeviceError);
  EXPECT_TRUE(warnings_.empty());
}

// Runs in a separate process, whose device stays lost.
TEST_P(Conv2dFallback, ALostDeviceIsAnError) {
  const auto kernel = prepare();
  const Tensor x = copy(x_, kGpu), w = copy(w_, kGpu), y = copy(y_, kGpu);
  const Buffer in[] = {{x.impl()->data(), x.spec()}, {w.impl()->data(), w.spec()}};
  const Buffer out[] = {{y.impl()->data(), y.spec()}};
  const auto lose = [&] {
    cuda_double_fail("sticky:call:2");  // after the query of the current device
    EXPECT_THROW(kernel->run(where(), in, out, {scratch_->pointer, {}}), DeviceLost);
    EXPECT_STREQ(cuda_double_failed_call(), "cudnnBackendExecute");
    EXPECT_TRUE(warnings_.empty());
    std::_Exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(0), "");
}

TEST_P(Conv2dFallback, TheWarningNamesOpAndPlace) {
  const DeviceScope scope(kGpu);
  const ModulePathScope path("block"), inner("conv1");
  kernel_cache() = {};  // eager mode caches kernels
  cuda_double_fail("dnn:run:1");
  const Tensor x = copy(x_, kGpu), w = copy(w_, kGpu);
  conv2d(x, w, {.padding = 1});
  expect_one_warning("conv2d at block.conv1: cuDNN's engine");
}

}  // namespace
}  // namespace cuda_double_tests
