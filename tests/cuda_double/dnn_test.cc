// cuDNN on the double, called through the engine.
#include <cmath>
#include <string>

#include "testing.h"

#include "tessera/layers/conv2d/cuda/plans.h"
#include "tessera/runtime/error.h"

namespace cuda_double_tests {
namespace {

using tessera::ConvPass;
using tessera::ConvShape;
using tessera::DnnPlan;
using tessera::GpuSettings;

struct Handle {
  cudnnHandle_t handle = nullptr;
  explicit Handle(cudaStream_t stream) {
    EXPECT_EQ(tessera::dnn().cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(tessera::dnn().cudnnSetStream(handle, stream), CUDNN_STATUS_SUCCESS);
  }
  ~Handle() { tessera::dnn().cudnnDestroy(handle); }
};

tessera::DnnDescriptor pack_of(std::vector<void*> pointers, void* workspace) {
  const int64_t ids[] = {tessera::kConvX, tessera::kConvW, tessera::kConvY};
  tessera::DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)
      .finalize();
  return pack;
}

// Returns the result of the pass by the definition of a convolution.
std::vector<float> by_definition(ConvPass pass, const ConvShape& s, const std::vector<float>& x,
                                 const std::vector<float>& w, const std::vector<float>& y) {
  std::vector<double> dx(x.size()), dw(w.size()), out(y.size());
  const int64_t in = s.c / s.groups;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t i = 0; i < s.out_h(); ++i)
      for (int64_t j = 0; j < s.out_w(); ++j)
        for (int64_t o = 0; o < s.o; ++o)
          for (int64_t r = 0; r < s.kh; ++r)
            for (int64_t q = 0; q < s.kw; ++q)
              for (int64_t c = 0; c < in; ++c) {
                const int64_t h = i * s.stride_h - s.pad_h + r * s.dilation_h,
                              v = j * s.stride_w - s.pad_w + q * s.dilation_w;
                if (h < 0 || h >= s.h || v < 0 || v >= s.w) continue;
                const auto at_x = static_cast<size_t>(((n * s.h + h) * s.w + v) * s.c +
                                                      o / (s.o / s.groups) * in + c);
                const auto at_w = static_cast<size_t>(((o * s.kh + r) * s.kw + q) * in + c);
                const auto at_y =
                    static_cast<size_t>(((n * s.out_h() + i) * s.out_w() + j) * s.o + o);
                out[at_y] += static_cast<double>(x[at_x]) * static_cast<double>(w[at_w]);
                dx[at_x] += static_cast<double>(y[at_y]) * static_cast<double>(w[at_w]);
                dw[at_w] += static_cast<double>(y[at_y]) * static_cast<double>(x[at_x]);
              }
  const std::vector<double>& made = pass == ConvPass::forward      ? out
                                    : pass == ConvPass::input_grad ? dx
                                                                   : dw;
  return {made.begin(), made.end()};
}

std::vector<float> some(size_t count, float seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(seed * static_cast<float>(i + 1));
  return values;
}

// One convolution in device memory, and its values on the host.
struct Case {
  ConvShape shape;
  std::vector<float> x, w, y;
  explicit Case(const ConvShape& s)
      : shape(s),
        x(some(static_cast<size_t>(s.n * s.h * s.w * s.c), 1.3f)),
        w(some(static_cast<size_t>(s.o * s.kh * s.kw * s.c / s.groups), 0.7f)),
        y(some(static_cast<size_t>(s.n * s.out_h() * s.out_w() * s.o), 2.1f)) {}

  std::vector<float> run(ConvPass pass, const DnnPlan& plan) const {
    Stream stream;
    Handle handle(stream);
    OnDevice<float> device_x(x.size()), device_w(w.size()), device_y(y.size());
    OnDevice<char> workspace(plan.workspace_bytes + 1);
    device_x.put(x, stream);
    device_w.put(w, stream);
    device_y.put(y, stream);
    const auto pack = pack_of({device_x.data, device_w.data, device_y.data}, workspace.data);
    EXPECT_EQ(tessera::dnn().cudnnBackendExecute(handle.handle, plan.plan.handle(), pack.handle()),
              CUDNN_STATUS_SUCCESS);
    return (pass == ConvPass::forward      ? device_y
            : pass == ConvPass::input_grad ? device_x
                                           : device_w)
        .get(stream);
  }
};

constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad};
const ConvShape kOdd{.n = 2,
                     .h = 9,
                     .w = 7,
                     .c = 6,
                     .o = 9,
                     .kh = 3,
                     .kw = 2,
                     .stride_h = 2,
                     .stride_w = 1,
                     .pad_h = 1,
                     .pad_w = 2,
                     .dilation_h = 1,
                     .dilation_w = 2,
                     .groups = 3};

std::vector<DnnPlan> plans(ConvPass pass, const ConvShape& shape, const GpuSettings& settings) {
  return dnn_plans(*tessera::conv_graph({pass, shape}), tessera::gpu_profile("H100"), settings, 10);
}

class Dnn : public WithSchedule {};
IN_EVERY_SCHEDULE(Dnn);

// cuDNN, Graph API: the operations, in every engine that is proposed.
TEST_P(Dnn, ConvolutionsAreThoseOfTheDefinition) {
  const Case odd(kOdd);
  for (const ConvPass pass : kPasses) {
    const std::vector<float> expected = by_definition(pass, kOdd, odd.x, odd.w, odd.y);
    const std::vector<DnnPlan> all = plans(pass, kOdd, {.deterministic = false});
    EXPECT_GE(all.size(), 3u);
    for (const DnnPlan& plan : all) {
      const std::vector<float> got = odd.run(pass, plan);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(got[i], expected[i], 1e-5) << static_cast<int>(pass) << ' ' << plan.engine;
    }
  }
}

// cuDNN, Numerical Notes: an engine without the note NONDETERMINISTIC gives the same bits each
// time, one with it need not, and the double's does not. One engine needs workspace and one does
// not.
TEST_P(Dnn, EnginesAreWhatTheirNotesSay) {
  const Case odd(kOdd);
  bool changed = false, with = false, without = false;
  for (const ConvPass pass : kPasses)
    for (const DnnPlan& plan : plans(pass, kOdd, {.deterministic = false})) {
      const bool same = odd.run(pass, plan) == odd.run(pass, plan);
      if ((plan.notes >> CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC & 1) == 0) {
        EXPECT_TRUE(same);
        (plan.workspace_bytes > 0 ? with : without) = true;
      } else {
        changed = changed || !same;
      }
    }
  EXPECT_TRUE(changed && with && without);
}

// cuDNN, Graph API: a plan can be restored from its text.
TEST_P(Dnn, APlanFromItsTextComputesTheSame) {
  const Case odd(kOdd);
  for (const ConvPass pass : kPasses)
    for (const DnnPlan& plan : plans(pass, kOdd, {})) {
      const DnnPlan again = tessera::dnn_plan_of(plan.json(), tessera::gpu_profile("H100"));
      EXPECT_EQ(again.workspace_bytes, plan.workspace_bytes);
      EXPECT_EQ(odd.run(pass, again), odd.run(pass, plan));
    }
  EXPECT_THROW(tessera::dnn_plan_of("{}", tessera::gpu_profile("H100")), tessera::DeviceError);
}

// cuDNN, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT: pointers must have the promised alignment.
TEST_P(Dnn, PointersAreChecked) {
  const DnnPlan plan = std::move(plans(ConvPass::forward, kOdd, {}).front());
  Stream stream;
  Handle handle(stream);
  const Case odd(kOdd);
  OnDevice<float> x(odd.x.size() + 1), w(odd.w.size()), y(odd.y.size());
  OnDevice<char> workspace(plan.workspace_bytes);
  const auto run = [&](void* at_x, void* scratch) {
    const auto pack = pack_of({at_x, w.data, y.data}, scratch);
    return tessera::dnn().cudnnBackendExecute(handle.handle, plan.plan.handle(), pack.handle());
  };
  EXPECT_EQ(run(x.data, workspace.data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(run(x.data + 1, workspace.data), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  std::vector<float> on_host(odd.x.size());
  EXPECT_EQ(run(on_host.data(), workspace.data), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(run(x.data, nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(run(x.data, workspace.data + 1), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

TEST_P(Dnn, PlantedFailures) {
  EXPECT_EQ(plans(ConvPass::forward, kOdd, {}).size(), 3u);  // the last is the fallback
  cuda_double_fail("dnn:plan:1");
  EXPECT_EQ(plans(ConvPass::forward, kOdd, {}).size(), 2u);
  cuda_double_fail("dnn:run:1");
  const DnnPlan plan = std::move(plans(ConvPass::forward, kOdd, {}).front());
  Stream stream;
  Handle handle(stream);
  const auto pack = pack_of({nullptr, nullptr, nullptr}, nullptr);
  EXPECT_EQ(tessera::dnn().cudnnBackendExecute(handle.handle, plan.plan.handle(), pack.handle()),
            CUDNN_STATUS_EXECUTION_FAILED);
}

// cuDNN accepts the description of an existing device as that of a described one.
TEST_P(Dnn, TheDeviceDescribesItself) {
  const tessera::DeviceProperties properties =
      tessera::properties_of_description(tessera::dnn_description(0));
  EXPECT_EQ(properties.major, 9);
  EXPECT_NE(properties.name.find("double"), std::string::npos);
  EXPECT_FALSE(dnn_plans(*tessera::conv_graph({ConvPass::forward, kOdd}), properties, {}).empty());
}

}  // namespace
}  // namespace cuda_double_tests
