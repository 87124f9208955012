#include "tessera/layers/ops/pool2d.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tessera/engine/eager.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/pool2d_simd.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

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

TEST(Pool2d, HandComputedMaximum) {
  const Tensor x = from_vector<double>({1, 3, 4, 1}, {1, 5, 2, 0,  //
                                                      3, 4, 8, 1,  //
                                                      9, 0, 7, 6});
  expect_near(max_pool2d(x, {.kernel = 2}), {5, 8});
  expect_near(max_pool2d(x, {.kernel = 2, .stride = Size2(1)}), {5, 8, 8, 9, 8, 8});
  const Tensor negative = x * -1.0;  // padding is never the largest
  expect_near(max_pool2d(negative, {.kernel = 3, .stride = Size2(2), .padding = 1}), {-1, 0, 0, 0});
}

TEST(Pool2d, HandComputedAverage) {
  const Tensor x = from_vector<double>({1, 2, 3, 1}, {1, 2, 3,  //
                                                      4, 5, 6});
  expect_near(average_pool2d(x, {.kernel = 2, .stride = Size2(1)}), {3, 4});
  const Pool2dParams padded{.kernel = 2, .stride = Size2(2), .padding = 1};
  expect_near(average_pool2d(x, padded), {0.25, 1.25, 1, 2.75});
  Pool2dParams inside = padded;
  inside.count_include_pad = false;
  expect_near(average_pool2d(x, inside), {1, 2.5, 4, 5.5});
}

TEST(Pool2d, RoundingUpKeepsWhatIsLeftOver) {
  const Tensor x = from_vector<double>({1, 1, 5, 1}, {1, 2, 3, 4, 5});
  const Pool2dParams up{.kernel = {1, 2}, .ceil_mode = true};
  expect_near(max_pool2d(x, up), {2, 4, 5});
  expect_near(average_pool2d(x, up), {1.5, 3.5, 5});  // pixels outside of the image do not count
  // A third window would begin in the padding after the image.
  const Pool2dParams padded{
      .kernel = {1, 2}, .stride = Size2(1, 3), .padding = {0, 1}, .ceil_mode = true};
  expect_near(max_pool2d(x, padded), {1, 4});
}

TEST(Pool2d, GlobalAverage) {
  const Tensor x = from_vector<double>({2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor y = global_average_pool(x);
  EXPECT_EQ(y.shape(), Shape({2, 2}));
  expect_near(y, {2, 3, 6, 7});
  EXPECT_EQ(global_average_pool(zeros({2, 3, 3, 0})).shape(), Shape({2, 0}));
}

// Channels in whole vectors, with a remainder, and fewer than a vector.
void expect_channels_pool_like_one(const Pool2dParams& params, int64_t c, DType dtype) {
  const Tensor x = requires_grad(cast(spread({2, 5, 6, c}), dtype));
  const Tensor y = max_pool2d(x, params), dy = cast(normal(y.shape(), 7), dtype);
  const Tensor dx = gradients(y, std::span(&x, 1), dy)[0];
  const auto channel_of = [&](const Tensor& all, int64_t channel) {
    std::vector<double> one;
    const auto values = cast(all, DType::f64).to_vector<double>();
    for (size_t i = static_cast<size_t>(channel); i < values.size(); i += static_cast<size_t>(c))
      one.push_back(values[i]);
    return one;
  };
  for (int64_t k = 0; k < c; ++k) {
    const Tensor alone = requires_grad(cast(from_vector({2, 5, 6, 1}, channel_of(x, k)), dtype));
    const Tensor pooled = max_pool2d(alone, params);
    const Tensor own_dy = cast(from_vector(pooled.shape(), channel_of(dy, k)), dtype);
    expect_near(cast(pooled, DType::f64), channel_of(y, k), 0);
    expect_near(cast(gradients(pooled, std::span(&alone, 1), own_dy)[0], DType::f64),
                channel_of(dx, k), 0);
  }
}

TEST(Pool2d, ManyChannelsPoolLikeOne) {
  for (const Pool2dParams& params : kSettings)
    for (const int64_t c : {2, 3, 6, 8, 9, 12, 37})
      for (const DType dtype : {DType::f64, DType::f32})
        expect_channels_pool_like_one(params, c, dtype);
}

// Vectors hold more than the channels of a pixel. Writes must stay in the row, because another
// thread may write the next one. Reads must stay in bounds, which a sanitizer checks.
template <class T>
void expect_rows_are_kept(const PoolMicrokernelsOf<T>& kernels, const PoolRow& of_x) {
  constexpr size_t kGuard = 32;
  const auto sized = [](int64_t elements) { return static_cast<size_t>(elements); };
  const auto untouched = [](const auto& all) {
    return std::count(all.end() - kGuard, all.end(), 77) == kGuard;
  };
  const int64_t ys = of_x.out_w * of_x.c;
  const std::vector<T> x(sized(of_x.rows * of_x.w * of_x.c + of_x.behind), 1);
  std::vector<T> y(sized(ys) + kGuard, 77);
  std::vector<uint8_t> positions(y.size(), 77);
  kernels.max_row(x.data(), of_x, y.data(), positions.data());
  EXPECT_TRUE(untouched(y) && untouched(positions)) << of_x.c << " channels, " << of_x.w << " wide";
  PoolRow of_dx = of_x;
  of_dx.rows = 1;
  const std::vector<T> dy(sized(ys + of_x.behind), 1);
  positions.resize(dy.size());
  std::vector<T> dx(sized(of_x.w * of_x.c) + kGuard, 77);
  kernels.max_row_grad(dy.data(), positions.data(), of_dx, of_x.stride_w, dx.data());
  EXPECT_TRUE(untouched(dx)) << of_x.c << " channels, " << of_x.w << " wide";
}

TEST(Pool2d, RowsAreKept) {
  const PoolMicrokernels& kernels = TESSERA_SELECT_MICROKERNELS(pool_microkernels);
  for (const int64_t side : {2, 3})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t c : {1, 2, 3, 5, 6, 7, 8, 11})
        for (const int64_t w : {3, 4, 9})
          for (const int64_t behind : {0, 32}) {
            const PoolRow row{.rows = side,
                              .first_row = 0,
                              .w = w,
                              .c = c,
                              .out_w = (w - side) / stride + 1,
                              .kernel_w = side,
                              .stride_w = stride,
                              .pad_w = 0,
                              .behind = behind};
            expect_rows_are_kept(kernels.f32, row);
            expect_rows_are_kept(kernels.f64, row);
          }
}

TEST(Pool2d, GradientsMatchDifferences) {
  for (const Pool2dParams& params : kSettings) {
    const Tensor x = spread({2, 6, 7, 3});
    expect_gradients([&](const Tensors& in) { return max_pool2d(in[0], params); }, {x});
    expect_gradients([&](const Tensors& in) { return average_pool2d(in[0], params); }, {x});
  }
  expect_gradients([](const Tensors& in) { return global_average_pool(in[0]); },
                   {normal({2, 3, 4, 5}, 1)});
}

// In 16 bits results are those of float32, rounded once.
using PoolFunction = std::function<Tensor(const Tensor&)>;
void expect_rounded_once(const PoolFunction& pool, const Shape& shape, DType half) {
  const Tensor values = cast(normal(shape, 3), half);
  const Tensor x = requires_grad(values), wide = requires_grad(cast(values, DType::f32));
  const Tensor y = pool(x), exact = pool(wide);
  EXPECT_EQ(y.dtype(), half);
  EXPECT_EQ(cast(y, DType::f32).to_vector<float>(),
            cast(cast(exact, half), DType::f32).to_vector<float>());
  const Tensor dy = cast(normal(y.shape(), 7), half);
  const Tensor dx = gradients(y, std::span(&x, 1), dy)[0];
  const Tensor exact_dx = gradients(exact, std::span(&wide, 1), cast(dy, DType::f32))[0];
  EXPECT_EQ(dx.dtype(), half);
  EXPECT_EQ(cast(dx, DType::f32).to_vector<float>(),
            cast(cast(exact_dx, half), DType::f32).to_vector<float>());
}

TEST(Pool2d, SixteenBitsAreRoundedOnce) {
  // Tasks of a part of an image, of some of its channels, of one image and of several.
  const Shape shapes[] = {{5, 7, 6, 3}, {2, 9, 8, 16}, {3, 40, 33, 19}, {1, 7, 7, 200}};
  for (const DType half : {DType::bf16, DType::f16})
    for (const Shape& shape : shapes) {
      for (const Pool2dParams& params : kSettings) {
        expect_rounded_once([&](const Tensor& x) { return max_pool2d(x, params); }, shape, half);
        expect_rounded_once([&](const Tensor& x) { return average_pool2d(x, params); }, shape,
                            half);
      }
      expect_rounded_once([](const Tensor& x) { return global_average_pool(x); }, shape, half);
    }
}

// Rows are converted, never all images.
TEST(Pool2d, SixteenBitsNeedNoCopyOfTheImages) {
  const PoolFunction pools[] = {
      [](const Tensor& x) { return max_pool2d(x, {.kernel = 2}); },
      [](const Tensor& x) { return average_pool2d(x, {.kernel = 2}); },
      [](const Tensor& x) { return global_average_pool(x); },
  };
  const Tensor x = requires_grad(cast(normal({64, 32, 32, 16}, 3), DType::bf16));
  Allocator& allocator = eager_allocator(x.device());
  for (const PoolFunction& pool : pools) {
    const Tensor dy = cast(normal(pool(x).shape(), 7), DType::bf16);
    allocator.reset_peak();
    const size_t before = allocator.statistics().live_bytes;
    gradients(pool(x), std::span(&x, 1), dy);
    const size_t taken = allocator.statistics().peak_live_bytes - before;
    // y, positions and dx, which are no larger than x.
    EXPECT_LT(taken, 5 * x.spec().bytes() / 2);
  }
}

TEST(Pool2d, TheFirstOfEqualMaximaGetsTheGradient) {
  const Tensor x = requires_grad(ones({1, 2, 2, 1}, DType::f64));
  const Tensor dx = gradients(max_pool2d(x, {.kernel = 2}), std::span(&x, 1),
                              full({1, 1, 1, 1}, 3, DType::f64))[0];
  expect_near(dx, {3, 0, 0, 0});
}

TEST(Pool2d, NanIsTheLargest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int at = 0; at < 4; ++at) {
    std::vector<double> values{1, 2, 3, 4};
    values[static_cast<size_t>(at)] = nan;
    EXPECT_TRUE(
        std::isnan(max_pool2d(from_vector({1, 2, 2, 1}, values), {.kernel = 2}).item<double>()));
  }
}

TEST(Pool2d, ErrorsExplain) {
  const Tensor x = zeros({2, 4, 5, 3});
  EXPECT_EQ(message_of([&] { max_pool2d(x, {.kernel = 5}); }),
            "max_pool2d: the kernel has 5x5 pixels, but x has 4x5 with its padding; use a smaller "
            "kernel (x float32[2x4x5x3])");
  EXPECT_EQ(message_of([&] { average_pool2d(x, {.kernel = 2, .padding = 2}); }),
            "average_pool2d: padding must be 0 or more and smaller than the kernel 2x2, but is 2x2 "
            "(x float32[2x4x5x3])");
  EXPECT_EQ(message_of([&] {
              max_pool2d(zeros({1, 20, 20, 1}), {.kernel = 17});
            }),
            "max_pool2d: a window may have at most 256 pixels, but the kernel 17x17 has 289; pool "
            "in two steps (x float32[1x20x20x1])");
  EXPECT_EQ(message_of([&] { max_pool2d(x, {.kernel = 2, .stride = Size2(0)}); }),
            "max_pool2d: stride must be at least 1, but is 0x0 (x float32[2x4x5x3])");
  EXPECT_EQ(message_of([&] {
              max_pool2d(zeros({2, 0, 5, 3}), {.kernel = 2, .padding = 1});
            }),
            "max_pool2d: x has no pixels, so its windows would lie in the padding (x "
            "float32[2x0x5x3])");
  EXPECT_EQ(message_of([&] {
              global_average_pool(zeros({2, 3}));
            }),
            "global_average_pool: x must have 4 axes, but has 2 (x float32[2x3])");
}

}  // namespace
}  // namespace tessera
