// The ways to compute a convolution on a GPU against the CPU in float64, over shapes that take
// every path. Skips itself where there is no GPU.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tessera/engine/storage.h"
#include "tessera/engine/store.h"
#include "tessera/layers/conv2d.h"
#include "tessera/runtime/error.h"

#if TESSERA_CUDA
#include "tessera/engine/structural.h"
#include "tessera/layers/conv2d_cuda/kernels.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

ConvShape square(int64_t n, int64_t size, int64_t c, int64_t o, int64_t k, int64_t stride,
                 int64_t pad, int64_t dilation = 1, int64_t groups = 1) {
  return {n, size, size, c, o, k, k, stride, stride, pad, pad, dilation, dilation, groups};
}

const ConvShape kShapes[] = {
    square(1, 1, 1, 1, 1, 1, 0),                   // one element
    square(0, 5, 3, 4, 3, 1, 1),                   // none
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
constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad};

struct Case {
  ConvRequest request;
  Tensor a, b, expected;  // on the CPU, float64
};

Case make_case(ConvPass pass, const ConvShape& s, size_t element) {
  const Conv2dParams params{.stride = {s.stride_h, s.stride_w},
                            .padding = {s.pad_h, s.pad_w},
                            .dilation = {s.dilation_h, s.dilation_w},
                            .groups = s.groups};
  const auto random = [](const Shape& shape, uint64_t seed) {
    // Values that float32 holds, so that both start from the same.
    return cast(random_uniform(shape, seed, -1, 1, DType::f32), DType::f64);
  };
  const Tensor x = random({s.n, s.h, s.w, s.c}, 1);
  const Tensor w = random({s.o, s.kh, s.kw, s.c / s.groups}, 2);
  const Tensor dy = random({s.n, s.out_h(), s.out_w(), s.o}, 3);
  const ConvRequest request{pass, s, element};
  if (pass == ConvPass::forward) return {request, x, w, conv2d(x, w, params)};
  if (pass == ConvPass::input_grad)
    return {request, dy, w, conv2d_input_grad(dy, w, {s.h, s.w}, params)};
  return {request, x, dy, conv2d_weight_grad(x, dy, {s.kh, s.kw}, params)};
}

class CudaConv2d : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
    facts_.index = 0;
  }

  // A block on the GPU, `offset` bytes behind where blocks start.
  class Block {
   public:
    Block(int64_t bytes, size_t offset) : bytes_(static_cast<size_t>(bytes) + offset) {
      block_ = gpu().memory().allocate(bytes_);
      data = static_cast<char*>(block_) + offset;
    }
    ~Block() { gpu().memory().release(block_, bytes_); }
    Block(const Block&) = delete;
    char* data;

   private:
    size_t bytes_;
    void* block_;
  };
  static Context& gpu() { return context(parse_device("gpu:0")); }

  static Tensor in_dtype(const Tensor& x, const ConvRequest& request) {
    return cast(x, request.element == sizeof(float) ? DType::f32 : DType::f64);
  }

  // The output's bytes. Scratch and output hold something else before.
  std::string run(const Case& c, const Algorithm& algorithm, size_t offset = 0) const {
    const Tensor a = in_dtype(c.a, c.request), b = in_dtype(c.b, c.request);
    const Tensor y = in_dtype(c.expected, c.request);
    Block a_block(a.spec().bytes(), offset), b_block(b.spec().bytes(), offset),
        out(y.spec().bytes(), offset), scratch(static_cast<int64_t>(algorithm.scratch_bytes), 0);
    const std::string noise(static_cast<size_t>(y.spec().bytes()) + algorithm.scratch_bytes,
                            '\x7f');
    gpu().copy_from_host(a_block.data, a.impl()->data(), static_cast<size_t>(a.spec().bytes()));
    gpu().copy_from_host(b_block.data, b.impl()->data(), static_cast<size_t>(b.spec().bytes()));
    gpu().copy_from_host(out.data, noise.data(), static_cast<size_t>(y.spec().bytes()));
    gpu().copy_from_host(scratch.data, noise.data(), algorithm.scratch_bytes);
    const Buffer in[] = {{a_block.data, a.spec()}, {b_block.data, b.spec()}};
    const Buffer to[] = {{out.data, y.spec()}};
    const auto kernel = dnn_kernel(c.request, algorithm, facts_, {}, as_cuda(gpu()));
    kernel->run(gpu(), in, to, {scratch.data, {}});
    std::string bytes(static_cast<size_t>(y.spec().bytes()), '\0');
    gpu().copy_to_host(bytes.data(), out.data, bytes.size());
    return bytes;
  }

  // max |gpu - cpu| / max |cpu|
  template <class T>
  static double difference(const std::string& bytes, const Tensor& expected) {
    double worst = 0, largest = 1e-30;
    const std::vector<double> right = expected.to_vector<double>();
    for (size_t i = 0; i < right.size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      const double error = std::abs(static_cast<double>(value) - right[i]);
      worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
      largest = std::max(largest, std::abs(right[i]));
    }
    return worst / largest;
  }
  static double error_of(const std::string& bytes, const Case& c) {
    return c.request.element == sizeof(float) ? difference<float>(bytes, c.expected)
                                              : difference<double>(bytes, c.expected);
  }
  static double tolerance(const Case& c) {
    return c.request.element == sizeof(float) ? 1e-5 : 1e-13;
  }

  static std::optional<Algorithm> named(const std::vector<Algorithm>& all, std::string_view name) {
    for (const Algorithm& one : all)
      if (one.name == name) return one;
    return std::nullopt;
  }

  DeviceFacts facts_;
};

// Without cuDNN too: the request says of which addresses nothing may be expected.
Algorithm direct(const ConvRequest& request, const DeviceFacts& facts) {
  ConvRequest wide = request;
  wide.element = sizeof(double);  // about which cuDNN is not asked
  Algorithm only = dnn_algorithms(wide, facts).front();
  EXPECT_EQ(only.name, "direct");
  return only;
}

TEST_F(CudaConv2d, DirectGivesWhatTheCpuGives) {
  for (const ConvShape& shape : kShapes)
    for (const ConvPass pass : kPasses)
      for (const size_t element : {sizeof(float), sizeof(double)}) {
        const Case c = make_case(pass, shape, element);
        const Algorithm algorithm = direct(c.request, facts_);
        const std::string bytes = run(c, algorithm);
        EXPECT_LE(error_of(bytes, c), tolerance(c)) << conv_text(c.request) << ' ' << element;
        EXPECT_EQ(bytes, run(c, algorithm, element)) << conv_text(c.request) << ", not aligned";
      }
}

TEST_F(CudaConv2d, DirectTakesFloat64AndDnnTheRest) {
  ConvRequest request{ConvPass::forward, kShapes[3], sizeof(double)};
  ASSERT_EQ(dnn_algorithms(request, facts_).size(), 1u);
  if (const std::string fault = cuda_libraries().dnn_fault; !fault.empty()) GTEST_SKIP() << fault;
  request.element = sizeof(float);
  EXPECT_EQ(dnn_algorithms(request, facts_).front().name, "cudnn");
}

TEST_F(CudaConv2d, DnnGivesWhatTheCpuGives) {
  if (const std::string fault = cuda_libraries().dnn_fault; !fault.empty()) GTEST_SKIP() << fault;
  for (const ConvShape& shape : kShapes)
    for (const ConvPass pass : kPasses) {
      const Case c = make_case(pass, shape, sizeof(float));
      const auto algorithm = named(dnn_algorithms(c.request, facts_), "cudnn");
      EXPECT_EQ(algorithm.has_value(), shape.n > 0) << conv_text(c.request);
      if (!algorithm) continue;
      const std::string bytes = run(c, *algorithm);
      EXPECT_LE(error_of(bytes, c), tolerance(c)) << conv_text(c.request);
      EXPECT_EQ(bytes, run(c, *algorithm)) << conv_text(c.request) << ", once more";
      EXPECT_LE(error_of(run(c, *algorithm, sizeof(float)), c), tolerance(c))
          << conv_text(c.request) << ", not aligned";
    }
}

}  // namespace
}  // namespace tessera
#endif
