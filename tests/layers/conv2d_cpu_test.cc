// The convolution kernels against sums written out in float64, over shapes chosen to hit every
// path and every remainder; bits against the number of threads; scratch against overruns.
#include "tessera/layers/conv2d_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tessera {
namespace {

struct Case {
  const char* why;
  ConvShape shape;
};

ConvShape square(int64_t n, int64_t size, int64_t c, int64_t o, int64_t k, int64_t stride,
                 int64_t pad, int64_t dilation = 1, int64_t groups = 1) {
  return {n, size, size, c, o, k, k, stride, stride, pad, pad, dilation, dilation, groups};
}

const Case kCases[] = {
    {"one value", square(1, 1, 1, 1, 1, 1, 0)},
    {"one channel", square(2, 9, 1, 5, 3, 1, 1)},
    {"three channels", square(2, 11, 3, 16, 3, 1, 1)},
    {"stem of a CIFAR network", square(3, 32, 3, 16, 3, 1, 1)},
    {"stem 7x7 stride 2", square(1, 30, 3, 24, 7, 2, 3)},
    {"LeNet first", square(2, 28, 1, 6, 5, 1, 2)},
    {"LeNet second", square(3, 14, 6, 16, 5, 1, 0)},
    {"16 channels", square(2, 16, 16, 16, 3, 1, 1)},
    {"32 channels", square(2, 8, 32, 32, 3, 1, 1)},
    {"64 channels on several images", square(9, 8, 64, 64, 3, 1, 1)},
    {"wide, small map", square(3, 4, 96, 136, 3, 1, 1)},
    {"more columns than fit at once", square(1, 3, 40, 600, 3, 1, 1)},
    {"long sums", square(1, 5, 300, 20, 3, 1, 1)},
    {"stride 2", square(2, 16, 16, 32, 3, 2, 1)},
    {"stride 2, odd size", square(2, 15, 32, 40, 3, 2, 1)},
    {"stride 3", square(2, 17, 8, 12, 3, 3, 1)},
    {"stride larger than the kernel", square(2, 13, 8, 10, 2, 3, 0)},
    {"last rows unused", square(1, 12, 4, 8, 3, 2, 0)},
    {"1x1", square(3, 7, 24, 40, 1, 1, 0)},
    {"1x1, few channels", square(3, 7, 5, 10, 1, 1, 0)},
    {"1x1 stride 2", square(2, 16, 16, 32, 1, 2, 0)},
    {"1x1 stride 2, odd", square(2, 7, 17, 10, 1, 2, 0)},
    {"1x1 with padding", square(2, 5, 8, 8, 1, 1, 1)},
    {"kernel larger than the image", square(2, 3, 4, 7, 5, 1, 2)},
    {"much larger, strided", square(2, 2, 3, 5, 7, 2, 3)},
    {"padding beyond the kernel", square(1, 4, 4, 6, 3, 1, 4)},
    {"padding beyond, stride 2", square(1, 5, 4, 6, 2, 2, 3)},
    {"dilation 2", square(2, 13, 16, 16, 3, 1, 2, 2)},
    {"dilation 2, stride 2", square(2, 12, 8, 9, 3, 2, 2, 2)},
    {"dilation 3, stride 2", square(2, 14, 8, 9, 3, 2, 3, 3)},
    {"dilation 2, stride 3", square(1, 16, 40, 9, 4, 3, 1, 2)},
    {"groups 2", square(2, 9, 16, 24, 3, 1, 1, 1, 2)},
    {"groups 4, odd", square(2, 7, 12, 20, 3, 2, 1, 1, 4)},
    {"groups of many", square(1, 6, 80, 48, 3, 1, 1, 1, 2)},
    {"groups, 1x1", square(2, 6, 32, 48, 1, 1, 0, 1, 2)},
    {"depthwise", square(2, 9, 32, 32, 3, 1, 1, 1, 32)},
    {"depthwise, odd channels", square(2, 9, 27, 27, 3, 1, 1, 1, 27)},
    {"depthwise stride 2", square(2, 10, 24, 24, 3, 2, 1, 1, 24)},
    {"depthwise 5x5 dilated", square(1, 12, 19, 19, 5, 1, 4, 2, 19)},
    {"depthwise without padding", square(2, 8, 9, 9, 3, 1, 0, 1, 9)},
    {"depthwise, two filters a channel", square(2, 8, 6, 12, 3, 1, 1, 1, 6)},
    {"oblong", {2, 5, 19, 7, 10, 3, 1, 1, 2, 1, 0, 1, 1, 1}},
    {"oblong, dilated rows", {2, 11, 6, 8, 9, 2, 4, 2, 1, 0, 2, 3, 1, 1}},
    {"oblong, dilated columns", {1, 6, 21, 20, 17, 1, 3, 1, 2, 0, 2, 1, 2, 1}},
    {"one row", {3, 1, 40, 8, 8, 1, 5, 1, 1, 0, 2, 1, 1, 1}},
    {"one column, many rows", {1, 200, 1, 3, 4, 3, 1, 1, 1, 1, 0, 1, 1, 1}},
};

int64_t x_size(const ConvShape& s) { return s.n * s.h * s.w * s.c; }
int64_t w_size(const ConvShape& s) { return s.o * s.kh * s.kw * (s.c / s.groups); }
int64_t y_size(const ConvShape& s) { return s.n * s.out_h() * s.out_w() * s.o; }

// Values in [-1, 1), a different sequence for each seed.
template <class T>
std::vector<T> values(int64_t count, uint32_t seed) {
  std::vector<T> v(count);
  uint32_t state = seed * 2654435761u + 12345u;
  for (T& e : v) {
    state = state * 1664525u + 1013904223u;
    e = static_cast<T>(static_cast<int32_t>(state) >> 8) / static_cast<T>(1 << 23);
  }
  return v;
}

// Calls f(x index, w index, y index) for every product in the definition.
template <class F>
void each_product(const ConvShape& s, F&& f) {
  const int64_t in = s.c / s.groups, out = s.o / s.groups;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t i = 0; i < s.out_h(); ++i)
      for (int64_t j = 0; j < s.out_w(); ++j)
        for (int64_t u = 0; u < s.kh; ++u)
          for (int64_t v = 0; v < s.kw; ++v) {
            const int64_t row = i * s.stride_h - s.pad_h + u * s.dilation_h;
            const int64_t column = j * s.stride_w - s.pad_w + v * s.dilation_w;
            if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
            for (int64_t q = 0; q < s.o; ++q)
              for (int64_t k = 0; k < in; ++k)
                f(((n * s.h + row) * s.w + column) * s.c + q / out * in + k,
                  ((q * s.kh + u) * s.kw + v) * in + k,
                  ((n * s.out_h() + i) * s.out_w() + j) * s.o + q);
          }
}

// Scratch of exactly the size asked for, filled with NaN, with a guard behind it.
class Scratch {
 public:
  explicit Scratch(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<unsigned char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)),
              &std::free) {
    std::memset(data_.get(), 0xff, bytes + 64);
  }
  void* data() { return data_.get(); }
  bool intact() const {
    return std::all_of(data_.get() + bytes_, data_.get() + bytes_ + 64,
                       [](unsigned char b) { return b == 0xff; });
  }

 private:
  size_t bytes_;
  std::unique_ptr<unsigned char, decltype(&std::free)> data_;
};

template <class T>
double error(const std::vector<T>& got, const std::vector<double>& want) {
  double difference = 0, largest = 1e-30;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(got[i])) return NAN;
    difference = std::max(difference, std::abs(got[i] - want[i]));
    largest = std::max(largest, std::abs(want[i]));
  }
  return difference / largest;
}

// Records which elements an epilogue was called for, and that it saw their final values.
template <class T>
struct Seen {
  std::vector<T> values;
  std::vector<int> times;
  int64_t pixel;
  static void apply(void* context, T* rows, int64_t first, int64_t count) {
    Seen& seen = *static_cast<Seen*>(context);
    for (int64_t i = 0; i < count; ++i) {
      seen.values[first + i] = rows[i];
      seen.times[first + i] += count % seen.pixel == 0 && first % seen.pixel == 0 ? 1 : 100;
    }
  }
  Seen(int64_t count, int64_t channels) : values(count), times(count), pixel(channels) {}
  bool once() const {
    return std::all_of(times.begin(), times.end(), [](int t) { return t == 1; });
  }
};

template <class T>
struct Results {
  std::vector<T> y, dx, dw;
};

template <class T>
Results<T> run(const ConvShape& s, int threads) {
  const auto x = values<T>(x_size(s), 1), w = values<T>(w_size(s), 2), dy = values<T>(y_size(s), 3);
  Results<T> r{std::vector<T>(y_size(s), T(NAN)), std::vector<T>(x_size(s), T(NAN)),
               std::vector<T>(w_size(s), T(NAN))};
  ThreadPool pool(threads);
  Scratch forward(conv2d_scratch(s, sizeof(T), threads));
  Scratch input(conv2d_input_grad_scratch(s, sizeof(T), threads));
  Scratch weight(conv2d_weight_grad_scratch(s, sizeof(T), threads));
  Seen<T> seen_y(y_size(s), s.o), seen_dx(x_size(s), s.c);
  Epilogue<T> on_y{Seen<T>::apply, &seen_y}, on_dx{Seen<T>::apply, &seen_dx};
  conv2d(pool, s, x.data(), w.data(), r.y.data(), forward.data(), &on_y);
  conv2d_input_grad(pool, s, dy.data(), w.data(), r.dx.data(), input.data(), &on_dx);
  conv2d_weight_grad(pool, s, x.data(), dy.data(), r.dw.data(), weight.data());
  EXPECT_TRUE(forward.intact() && input.intact() && weight.intact()) << "scratch is overrun";
  EXPECT_TRUE(seen_y.once() && seen_y.values == r.y);
  EXPECT_TRUE(seen_dx.once() && seen_dx.values == r.dx);
  return r;
}

template <class T>
void compare(const Case& test, double tolerance) {
  const ConvShape& s = test.shape;
  const auto x = values<T>(x_size(s), 1), w = values<T>(w_size(s), 2), dy = values<T>(y_size(s), 3);
  std::vector<double> y(y_size(s)), dx(x_size(s)), dw(w_size(s));
  each_product(s, [&](int64_t i, int64_t k, int64_t j) {
    y[j] += double(x[i]) * w[k];
    dx[i] += double(dy[j]) * w[k];
    dw[k] += double(dy[j]) * x[i];
  });
  const Results<T> r = run<T>(s, 2);
  EXPECT_LE(error(r.y, y), tolerance);
  EXPECT_LE(error(r.dx, dx), tolerance);
  EXPECT_LE(error(r.dw, dw), tolerance);
}

class Conv2dKernels : public testing::TestWithParam<Case> {};

TEST_P(Conv2dKernels, AgreeWithTheDefinition) {
  compare<float>(GetParam(), 3e-6);
  compare<double>(GetParam(), 1e-14);
}

TEST_P(Conv2dKernels, SameBitsForAnyNumberOfThreads) {
  const ConvShape& s = GetParam().shape;
  const Results<float> one = run<float>(s, 1);
  for (int threads : {2, 3, 5}) {
    const Results<float> many = run<float>(s, threads);
    EXPECT_TRUE(one.y == many.y && one.dx == many.dx && one.dw == many.dw) << threads << " threads";
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::to_string(info.index) + "_" + info.param.why;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Conv2dKernels, testing::ValuesIn(kCases), case_name);

TEST(Conv2dKernelsScratch, StaysSmall) {
  for (const ConvShape& s : {square(32, 224, 3, 64, 7, 2, 3), square(32, 56, 64, 64, 3, 1, 1),
                             square(32, 56, 256, 64, 1, 1, 0), square(32, 14, 1024, 2048, 1, 2, 0),
                             square(32, 7, 512, 512, 3, 1, 1), square(128, 32, 64, 64, 3, 1, 1)}) {
    EXPECT_LE(conv2d_scratch(s, 4, 8), size_t{32} << 20);
    EXPECT_LE(conv2d_input_grad_scratch(s, 4, 8), size_t{32} << 20);
    EXPECT_LE(conv2d_weight_grad_scratch(s, 4, 8), size_t{32} << 20);
  }
}

}  // namespace
}  // namespace tessera
