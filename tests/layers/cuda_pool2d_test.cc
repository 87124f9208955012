#include "tessera/graph/compile.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

class CudaPool2d : public OnGpu {};

const Pool2dParams kSettings[] = {
    {.kernel = 2},
    {.kernel = 3, .stride = Size2(2), .padding = 1},
    {.kernel = {3, 2}, .stride = Size2(1, 2), .padding = {1, 0}, .count_include_pad = false},
    {.kernel = 3, .stride = Size2(2), .padding = 1, .count_include_pad = false},
    {.kernel = 2, .stride = Size2(3)},
    {.kernel = 2, .ceil_mode = true},
    {.kernel = 3, .stride = Size2(2), .ceil_mode = true},
    {.kernel = 3, .stride = Size2(2), .padding = 1, .count_include_pad = false, .ceil_mode = true},
};

// Channels in packs and not; more pixels than a block has threads.
const Shape kImages[] = {{2, 5, 6, 1}, {1, 7, 5, 3}, {2, 6, 5, 8}, {3, 20, 11, 2}, {0, 5, 5, 4}};

Tensor values(const Shape& shape, uint64_t key) {
  return random_normal(shape, key, 0, 1, DType::f64);
}

using Pool = Tensor (*)(const Tensor&, const Pool2dParams&);

void expect_cpu_bits(Pool pool, const Tensor& x, const Pool2dParams& params) {
  const Shape y = pool(x, params).shape();
  expect_gpu_has_cpu_bits(
      with_gradients([&](const Tensors& in) { return Tensors{pool(in[0], params)}; }, 1),
      {x, values(y, 2)});
}

TEST_F(CudaPool2d, MaximumAndItsGradient) {
  for (const Pool2dParams& params : kSettings)
    for (const Shape& shape : kImages) {
      expect_cpu_bits(max_pool2d, values(shape, 1), params);
      expect_gpu_has_cpu_bits([&](const Tensors& in) { return Tensors{max_pool2d(in[0], params)}; },
                              {values(shape, 1)});
    }
}

TEST_F(CudaPool2d, AverageAndItsGradient) {
  for (const Pool2dParams& params : kSettings)
    for (const Shape& shape : kImages) expect_cpu_bits(average_pool2d, values(shape, 1), params);
}

// The first of equal values, or of NaNs, receives the gradient.
TEST_F(CudaPool2d, MaximumOfTiesAndNan) {
  std::vector<double> all;
  for (int i = 0; i < 2 * 7 * 7 * 4; ++i)
    all.push_back(i % 13 == 0 ? std::nan("") : static_cast<double>(i * 31 % 3));
  for (const Pool2dParams& params : kSettings)
    expect_cpu_bits(max_pool2d, from_vector({2, 7, 7, 4}, all), params);
}

// A position needs a whole byte.
TEST_F(CudaPool2d, AWindowOf256Pixels) {
  expect_cpu_bits(max_pool2d, values({1, 17, 16, 4}, 1), {.kernel = 16, .stride = Size2(1)});
}

TEST_F(CudaPool2d, GlobalAverage) {
  for (const Shape& shape : {Shape{2, 1, 1, 1}, Shape{3, 7, 7, 5}, Shape{1, 20, 21, 8},
                             Shape{2, 3, 2, 300}, Shape{2, 3, 3, 0}, Shape{0, 3, 3, 4}})
    expect_gpu_matches(
        with_gradients([](const Tensors& in) { return Tensors{global_average_pool(in[0])}; }, 1),
        {values(shape, 1), values({shape[0], shape[3]}, 2)});
}

// The kernel takes no epilogue, so an op after the gradient must stay a separate node.
TEST_F(CudaPool2d, TheGradientDropsNothingThatFollowsIt) {
  const auto f = [](const Tensors& in) {
    const Tensor x = requires_grad(in[0]);
    return gradients(max_pool2d(relu(x), {.kernel = 2}), std::span(&x, 1), in[1]);
  };
  expect_gpu_has_cpu_bits(
      [&](const Tensors& in) {
        auto step = compile([&](const Tensor& x, const Tensor& dy) { return f({x, dy})[0]; });
        return Tensors{copy(step(in[0], in[1]))};
      },
      {values({2, 4, 4, 3}, 1), values({2, 2, 2, 3}, 2)});
}

}  // namespace
}  // namespace tessera
