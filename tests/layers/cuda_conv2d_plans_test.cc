// What cuDNN is asked for convolutions, and what of its answers is taken, on GPUs that are only
// described: no GPU is needed. Skips itself where cuDNN is not installed.
#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

#if TESSERA_CUDA
#include "tessera/layers/conv2d_cuda/plans.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad};

class CudaConv2dPlans : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string fault = cuda_libraries().dnn_fault; !fault.empty()) GTEST_SKIP() << fault;
  }

  static std::optional<DnnPlan> plan(const ConvShape& shape, ConvPass pass,
                                     const DnnRules& rules = {}, const char* device = "H100") {
    return conv_plan({pass, shape}, gpu_profile(device), rules);
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
    const auto exact = plan(square_, pass), tf32 = plan(square_, pass, {.tf32 = true});
    ASSERT_TRUE(exact && tf32);
    EXPECT_FALSE(noted(*exact, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) << exact->notes_text();
    EXPECT_TRUE(noted(*tf32, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) << tf32->notes_text();
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
  const DnnRules free{.workspace_cap = SIZE_MAX}, capped{};
  size_t largest = 0;
  for (const ConvPass pass : kPasses) {
    const auto wanted = plan(stem_, pass, free), taken = plan(stem_, pass, capped);
    ASSERT_TRUE(wanted && taken);
    largest = std::max(largest, wanted->workspace_bytes);
    EXPECT_LE(taken->workspace_bytes, capped.workspace_cap);
  }
  EXPECT_GT(largest, capped.workspace_cap) << "the cap was never needed";
}

TEST_F(CudaConv2dPlans, OneAboutWhichCudnnIsNotAsked) {
  EXPECT_FALSE(conv_plan({ConvPass::forward, square_, sizeof(double)}, gpu_profile("H100"), {}));
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
  ConvShape single = square_;  // every axis of one element
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

TEST_F(CudaConv2dPlans, TheTextTellsAllThatIsAsked) {
  EXPECT_EQ(conv_text({ConvPass::input_grad, stem_}),
            "input_grad x 256x224x224x3 w 64x7x7x3 stride 2x2 padding 3x3 dilation 1x1 groups 1");
}

}  // namespace
}  // namespace tessera
#endif
