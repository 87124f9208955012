// Tests of requests to cuDNN for convolutions, and of the plans that are used, on described
// devices: no GPU is needed. Skipped if cuDNN is not installed.
#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

#if TESSERA_CUDA
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/log.h"
#include "tessera/tests/layers/conv_plan.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad};

class CudaConv2dPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string fault = cuda_libraries().dnn.fault; !fault.empty()) GTEST_SKIP() << fault;
  }

  static std::optional<DnnPlan> plan(const ConvShape& shape, ConvPass pass,
                                     const GpuSettings& settings = {},
                                     const char* device = "H100") {
    return conv_plan({pass, shape}, gpu_profile(device), settings);
  }
  static bool noted(const DnnPlan& plan, cudnnBackendNumericalNote_t note) {
    return (plan.notes >> note & 1) != 0;
  }

  const ConvShape square_{
      .n = 32, .h = 28, .w = 28, .c = 128, .o = 128, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1};
  const ConvShape stem_{.n = 256,
                        .h = 224,
                        .w = 224,
                        .c = 3,
                        .o = 64,
                        .kh = 7,
                        .kw = 7,
                        .stride_h = 2,
                        .stride_w = 2,
                        .pad_h = 3,
                        .pad_w = 3};
};

TEST_F(CudaConv2dPlans, TensorCoresOnlyWithTf32) {
  for (const ConvPass pass : kPasses) {
    const auto graph = conv_graph({pass, square_});
    for (const bool tf32 : {true, false}) {
      bool found = false;
      for (const DnnPlan& one : dnn_plans(*graph, gpu_profile("H100"), {.tf32 = tf32}, 100))
        found = found || noted(one, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
      EXPECT_EQ(found, tf32) << conv_text({pass, square_});
    }
  }
}

TEST_F(CudaConv2dPlans, DeterministicUnlessAllowed) {
  bool found = false;
  for (const ConvPass pass : kPasses) {
    const auto graph = conv_graph({pass, square_});
    for (const bool deterministic : {true, false})
      for (const DnnPlan& one :
           dnn_plans(*graph, gpu_profile("A100"), {.deterministic = deterministic}, 100)) {
        const bool changes = noted(one, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
        EXPECT_FALSE(deterministic && changes) << one.notes_text();
        found = found || changes;
      }
  }
  EXPECT_TRUE(found) << "cuDNN offered nothing that the rule could leave out";
}

TEST_F(CudaConv2dPlans, TheCapIsKeptBeyondTheFirstProposals) {
  const GpuSettings free{.tf32 = false, .workspace = SIZE_MAX};
  const GpuSettings capped{.tf32 = false, .workspace = size_t{256} << 20};
  size_t largest = 0;
  for (const ConvPass pass : kPasses) {
    const auto wanted = plan(stem_, pass, free), taken = plan(stem_, pass, capped);
    ASSERT_TRUE(wanted && taken);
    largest = std::max(largest, wanted->workspace_bytes);
    EXPECT_LE(taken->workspace_bytes, capped.workspace);
  }
  EXPECT_GT(largest, capped.workspace) << "the cap was never needed";
}

TEST_F(CudaConv2dPlans, OneAboutWhichCudnnIsNotAsked) {
  EXPECT_FALSE(conv_plan({ConvPass::forward, square_, DType::f64}, gpu_profile("H100"), {}));
  ConvShape empty = square_;
  empty.n = 0;
  for (const ConvPass pass : kPasses) EXPECT_FALSE(plan(empty, pass));
}

TEST_F(CudaConv2dPlans, StridesPaddingDilationAndGroups) {
  const ConvShape odd{.n = 3,
                      .h = 17,
                      .w = 9,
                      .c = 12,
                      .o = 24,
                      .kh = 3,
                      .kw = 5,
                      .stride_h = 2,
                      .stride_w = 1,
                      .pad_h = 0,
                      .pad_w = 2,
                      .dilation_h = 2,
                      .dilation_w = 1,
                      .groups = 3};
  ConvShape depthwise = square_;
  depthwise.groups = 128;
  ConvShape single = square_;  // every axis has one element
  single.n = single.h = single.w = single.c = single.o = 1;
  for (const ConvShape& shape : {odd, depthwise, single})
    for (const ConvPass pass : kPasses) EXPECT_TRUE(plan(shape, pass)) << conv_text({pass, shape});
}

TEST_F(CudaConv2dPlans, APlanIsMadeAgainFromItsText) {
  for (const ConvPass pass : kPasses) {
    const auto first = plan(square_, pass);
    ASSERT_TRUE(first);
    const DnnPlan again = dnn_plan_of(first->json(), gpu_profile("H100"));
    EXPECT_EQ(again.workspace_bytes, first->workspace_bytes);
    EXPECT_EQ(again.json(), first->json());
  }
  EXPECT_THROW(dnn_plan_of("{}", gpu_profile("H100")), DeviceError);
}

CachedPlans kept(const ConvRequest& request, const GpuSettings& settings, PlanCache& cache,
                 int* asked, const char* device = "H100") {
  return kept_dnn_plans(
      conv_plan_text(request),
      [&] {
        ++*asked;
        return conv_graph(request);
      },
      gpu_profile(device), settings, cache);
}

TEST_F(CudaConv2dPlans, AreKeptForTheNextProcess) {
  const tessera::testing::TempFolder folder;
  const ConvRequest request{ConvPass::weight_grad, square_};
  PlanCache first(folder.path()), second(folder.path());
  int asked = 0;
  const CachedPlans made = kept(request, {}, first, &asked);
  ASSERT_FALSE(made.empty());
  EXPECT_EQ(made.front().workspace_bytes,
            static_cast<int64_t>(plan(square_, request.pass)->workspace_bytes));
  EXPECT_EQ(kept(request, {}, second, &asked), made);
  EXPECT_EQ(asked, 1);
}

// A plan is reused only if everything that it depends on is equal.
TEST_F(CudaConv2dPlans, AreKeptForTheSameQuestionAlone) {
  const tessera::testing::TempFolder folder;
  PlanCache cache(folder.path());
  const ConvRequest request{ConvPass::forward, square_};
  ConvRequest unaligned = request;
  unaligned.alignment = 4;
  int asked = 0;
  kept(request, {}, cache, &asked);
  kept(request, {.tf32 = false}, cache, &asked);
  kept(request, {.deterministic = false}, cache, &asked);
  kept(request, {.workspace = 1 << 20}, cache, &asked);
  kept(request, {}, cache, &asked, "A100");
  kept(unaligned, {}, cache, &asked);
  kept({ConvPass::input_grad, square_}, {}, cache, &asked);
  EXPECT_EQ(asked, 7);
}

TEST_F(CudaConv2dPlans, OneThatCudnnDoesNotTakeIsMadeAnew) {
  const tessera::testing::TempFolder folder;
  const ConvRequest request{ConvPass::forward, square_};
  int asked = 0;
  PlanCache cache(folder.path());
  const CachedPlans made = kept(request, {}, cache, &asked);
  ASSERT_FALSE(made.empty());
  const std::string key = dnn_plan_key(conv_plan_text(request), gpu_profile("H100"), {});
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  const CachedPlan& good = made.front();
  for (const CachedPlan& bad :
       {CachedPlan{"{}", 1, 0, 0}, CachedPlan{good.text, 1, good.workspace_bytes + 16, 0}}) {
    cache.keep(key, {bad});
    EXPECT_EQ(kept(request, {}, cache, &asked), made);
    EXPECT_EQ(cache.find(key), made);
  }
  set_log_sink({});
  EXPECT_EQ(asked, 3);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("cuDNN does not accept it"), std::string::npos) << warnings[0];
}

TEST_F(CudaConv2dPlans, TheTextTellsAllThatIsAsked) {
  EXPECT_EQ(conv_text({ConvPass::input_grad, stem_}),
            "input_grad x 256x224x224x3 w 64x7x7x3 stride 2x2 padding 3x3 dilation 1x1 groups 1");
}

}  // namespace
}  // namespace tessera
#endif
