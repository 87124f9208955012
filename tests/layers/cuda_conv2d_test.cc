// Compares the convolution algorithms of a GPU with the CPU in float64, over shapes that take every
// path. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include "tessera/engine/eager.h"
#include "tessera/engine/storage.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/device_testing.h"

#if TESSERA_CUDA
#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/dnn_plans.h"

namespace tessera {
namespace {

ConvShape square(int64_t n, int64_t size, int64_t c, int64_t o, int64_t k, int64_t stride,
                 int64_t pad, int64_t dilation = 1, int64_t groups = 1) {
  return {n, size, size, c, o, k, k, stride, stride, pad, pad, dilation, dilation, groups};
}

const ConvShape kShapes[] = {
    square(1, 1, 1, 1, 1, 1, 0),                   // one element
    square(0, 5, 3, 4, 3, 1, 1),                   // no images
    square(2, 9, 1, 5, 3, 1, 1),                   // one channel
    square(2, 13, 3, 8, 7, 2, 3),                  // a stem
    square(2, 16, 16, 12, 1, 2, 0),                // 1x1, some pixels unread
    square(1, 12, 4, 8, 3, 2, 0),                  // last rows unread
    square(2, 13, 8, 10, 2, 3, 0),                 // a stride larger than the filter
    square(1, 4, 4, 6, 3, 1, 4),                   // padding beyond the filter
    square(2, 3, 4, 7, 5, 1, 2),                   // a filter larger than the image
    square(2, 12, 8, 9, 3, 2, 2, 2),               // dilated
    square(2, 9, 16, 24, 3, 1, 1, 1, 2),           // groups
    square(2, 10, 24, 24, 3, 2, 1, 1, 24),         // depthwise
    square(2, 8, 6, 12, 3, 1, 1, 1, 6),            // two filters a channel
    {2, 5, 19, 6, 10, 3, 1, 1, 2, 1, 0, 1, 1, 1},  // oblong
    {1, 6, 21, 8, 16, 1, 3, 1, 2, 0, 2, 1, 2, 1},
};
Conv2dParams params_of(const ConvShape& s) {
  return {.stride = {s.stride_h, s.stride_w},
          .padding = {s.pad_h, s.pad_w},
          .dilation = {s.dilation_h, s.dilation_w},
          .groups = s.groups};
}

Tensor noise(const Shape& shape, uint64_t seed) { return random_uniform(shape, seed, -1, 1); }

// Returns x, filters and dy.
Tensors inputs_of(const ConvShape& s) {
  return {noise({s.n, s.h, s.w, s.c}, 1), noise({s.o, s.kh, s.kw, s.c / s.groups}, 2),
          noise({s.n, s.out_h(), s.out_w(), s.o}, 3)};
}

DeviceFunction all_passes(const ConvShape& s) {
  return [s](const Tensors& in) {
    const Conv2dParams params = params_of(s);
    return Tensors{conv2d(in[0], in[1], params),
                   conv2d_input_grad(in[2], in[1], {s.h, s.w}, params),
                   conv2d_weight_grad(in[0], in[2], {s.kh, s.kw}, params)};
  };
}

std::string text_of(const ConvShape& s) { return conv_text({ConvPass::forward, s}); }

class CudaConv2d : public OnGpu {};

TEST_F(CudaConv2d, Float64GivesWhatTheCpuGives) {
  for (const ConvShape& shape : kShapes)
    for (const Placed placed : {Placed::aligned, Placed::off_by_one})
      EXPECT_LE(gpu_error(all_passes(shape), inputs_of(shape), DType::f64, placed),
                gpu_tolerance(DType::f64))
          << text_of(shape);
}

TEST_F(CudaConv2d, Float32AndSixteenBitsGiveWhatTheCpuGives) {
  try {
    dnn_description(0);
  } catch (const DeviceError& error) {
    GTEST_SKIP() << error.what();
  }
  for (const ConvShape& shape : kShapes)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const Placed placed : {Placed::aligned, Placed::off_by_one})
        EXPECT_LE(gpu_error(all_passes(shape), inputs_of(shape), dtype, placed),
                  gpu_tolerance(dtype))
            << text_of(shape) << " " << name_of(dtype);
}

TEST_F(CudaConv2d, EachTimeTheSameBits) {
  const ConvShape shape = square(4, 12, 8, 16, 3, 1, 1);
  const Tensors first = run_on_gpu(all_passes(shape), inputs_of(shape), DType::f64),
                again = run_on_gpu(all_passes(shape), inputs_of(shape), DType::f64);
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(first[i].to_vector<double>(), again[i].to_vector<double>());
}

// The direct kernel is the last resort of all but float64, used only if cuDNN has no plan.
TEST_F(CudaConv2d, DirectComputesFloat32AndSixteenBits) {
  const Device gpu{DeviceKind::gpu, 0};
  CudaContext& ctx = as_cuda(context(gpu));
  for (const ConvShape& shape : kShapes)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      Tensors in;
      for (const Tensor& x : inputs_of(shape)) in.push_back(cast(cast(x, dtype), DType::f32));
      const Tensors right = all_passes(shape)(in);
      const Tensors pairs[] = {{in[0], in[1]}, {in[2], in[1]}, {in[0], in[2]}};
      for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad}) {
        const auto p = static_cast<size_t>(pass);
        const ConvRequest request{pass, shape, dtype};
        // The algorithm of float64, for which cuDNN is never used, has twice the scratch needed.
        const Algorithm direct =
            dnn_algorithms({pass, shape, DType::f64}, *ctx.properties()).back();
        const Tensor a = copy(cast(pairs[p][0], dtype), gpu),
                     b = copy(cast(pairs[p][1], dtype), gpu);
        const Tensor y = copy(cast(noise(right[p].shape(), 4), request.result()), gpu);
        const Tensor scratch =
            copy(noise({static_cast<int64_t>(direct.scratch_bytes / sizeof(float))}, 5), gpu);
        const Buffer from[] = {{a.impl()->data(), a.spec()}, {b.impl()->data(), b.spec()}};
        const Buffer to[] = {{y.impl()->data(), y.spec()}};
        dnn_kernel(request, direct, ctx)
            ->run(ctx, from, to, {scratch.impl()->data(), scratch.spec()});
        const auto found = as_doubles(copy(y, Device{})), expected = as_doubles(right[p]);
        const double unit = is_half(request.result()) ? gpu_tolerance(dtype) : 0;
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], expected[i], 1e-4 + unit * std::abs(expected[i]))
              << conv_text(request) << " " << name_of(dtype) << ", element " << i;
      }
    }
}

}  // namespace
}  // namespace tessera
#endif
