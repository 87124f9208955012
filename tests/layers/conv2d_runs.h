// Runs of convolution algorithms over shapes that take every path and every remainder, compared
// with sums in float64; also different numbers of threads (bits) and scratch (overruns).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/tests/layers/shared/random_values.h"

namespace tessera {

struct Case {
  const char* why;
  ConvShape shape;
};

inline ConvShape square(int64_t n, int64_t size, int64_t c, int64_t o, int64_t k, int64_t stride,
                        int64_t pad, int64_t dilation = 1, int64_t groups = 1) {
  return {n, size, size, c, o, k, k, stride, stride, pad, pad, dilation, dilation, groups};
}

inline const Case kCases[] = {
    {"one value", square(1, 1, 1, 1, 1, 1, 0)},
    {"no images", square(0, 5, 3, 4, 3, 1, 1)},
    {"no images, depthwise", square(0, 5, 3, 3, 3, 1, 1, 1, 3)},
    {"no images, 1x1", square(0, 5, 3, 4, 1, 1, 0)},
    {"one channel", square(2, 9, 1, 5, 3, 1, 1)},
    {"three channels", square(2, 11, 3, 16, 3, 1, 1)},
    {"stem of a CIFAR network", square(3, 32, 3, 16, 3, 1, 1)},
    {"stem 7x7 stride 2", square(1, 30, 3, 24, 7, 2, 3)},
    {"LeNet first", square(2, 28, 1, 6, 5, 1, 2)},
    {"LeNet second", square(3, 14, 6, 16, 5, 1, 0)},
    {"16 channels", square(2, 16, 16, 16, 3, 1, 1)},
    {"runs of 16 pixels and other rows", square(1, 35, 6, 12, 3, 1, 1)},
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
    {"1x1, columns and filters in parts", square(2, 9, 520, 300, 1, 1, 0)},
    {"1x1 stride 2, many channels", square(3, 9, 70, 40, 1, 2, 0)},
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
    {"depthwise, rows of seven", square(2, 14, 48, 48, 3, 1, 1, 1, 48)},
    {"depthwise, rows of seven and eight", square(1, 30, 17, 17, 3, 1, 1, 1, 17)},
    {"depthwise stride 2, odd", square(3, 15, 21, 21, 3, 2, 1, 1, 21)},
    {"depthwise stride 2, no padding", square(2, 12, 16, 16, 3, 2, 0, 1, 16)},
    {"depthwise stride 2, much padding", square(2, 5, 16, 16, 3, 2, 3, 1, 16)},
    {"depthwise, much padding", square(2, 4, 35, 35, 3, 1, 4, 1, 35)},
    {"depthwise, one pixel", square(3, 1, 40, 40, 3, 1, 1, 1, 40)},
    {"depthwise stride 2, one pixel", square(3, 1, 40, 40, 3, 2, 1, 1, 40)},
    {"depthwise, one column", {2, 9, 1, 16, 16, 3, 3, 1, 1, 1, 1, 1, 1, 16}},
    {"depthwise, oblong", {2, 3, 33, 20, 20, 3, 3, 1, 1, 0, 2, 1, 1, 20}},
    {"depthwise stride 2, oblong", {2, 3, 33, 20, 20, 3, 3, 2, 2, 2, 0, 1, 1, 20}},
    {"depthwise, large", square(1, 40, 130, 130, 3, 1, 1, 1, 130)},
    {"depthwise 5x5 dilated", square(1, 12, 19, 19, 5, 1, 4, 2, 19)},
    {"depthwise without padding", square(2, 8, 9, 9, 3, 1, 0, 1, 9)},
    {"depthwise, two filters a channel", square(2, 8, 6, 12, 3, 1, 1, 1, 6)},
    {"few pixels, many filters", square(2, 7, 99, 100, 3, 1, 1)},
    {"few pixels, many filters, stride 2", square(1, 13, 96, 113, 3, 2, 1)},
    {"few pixels, many filters, 1x1", square(3, 5, 320, 260, 1, 1, 0)},
    {"largest blocks of pixels, stride 2", square(12, 16, 40, 24, 3, 2, 1)},
    {"2x2 pixels of many images", square(70, 2, 40, 24, 3, 1, 1)},
    {"2x2 pixels of many images, odd", square(129, 2, 51, 40, 3, 1, 1)},
    {"2x2 pixels of many images, many filters", square(65, 2, 96, 260, 3, 1, 1)},
    {"a pixel of many images", square(65, 1, 40, 9, 3, 1, 1)},
    {"3x3 pixels of many images, 5x5", square(64, 3, 34, 16, 5, 1, 2)},
    {"2x3 pixels of many images, groups", {66, 2, 3, 40, 20, 3, 3, 1, 1, 1, 1, 1, 1, 2}},
    {"few pixels of many images, stride 2", square(67, 4, 40, 70, 3, 2, 1)},
    {"oblong", {2, 5, 19, 7, 10, 3, 1, 1, 2, 1, 0, 1, 1, 1}},
    {"oblong, dilated rows", {2, 11, 6, 8, 9, 2, 4, 2, 1, 0, 2, 3, 1, 1}},
    {"oblong, dilated columns", {1, 6, 21, 20, 17, 1, 3, 1, 2, 0, 2, 1, 2, 1}},
    {"one row", {3, 1, 40, 8, 8, 1, 5, 1, 1, 0, 2, 1, 1, 1}},
    {"one column, many rows", {1, 200, 1, 3, 4, 3, 1, 1, 1, 1, 0, 1, 1, 1}},
};

// Additional shapes for Winograd: maps that tiles divide or not; blocks of images, of rows and of
// parts of a row; channels that are not whole vectors; output channels in parts.
inline const Case kWinogradCases[] = {
    {"one pixel", square(2, 1, 8, 8, 3, 1, 1)},
    {"one tile", square(1, 4, 16, 16, 3, 1, 1)},
    {"less than a tile", square(3, 3, 16, 20, 3, 1, 1)},
    {"no padding", square(2, 9, 17, 9, 3, 1, 0)},
    {"full padding", square(2, 6, 9, 33, 3, 1, 2)},
    {"many images", square(37, 7, 19, 24, 3, 1, 1)},
    {"filters of hundreds of channels", square(3, 3, 520, 512, 3, 1, 1)},
    {"the same for many tiles", square(131, 1, 352, 345, 3, 1, 1)},
    {"rows of tiles", square(2, 32, 16, 16, 3, 1, 1)},
    {"rows of tiles, odd", square(2, 29, 24, 40, 3, 1, 1)},
    {"parts of a row", {1, 9, 150, 9, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1}},
    {"oblong, other padding", {2, 21, 6, 16, 24, 3, 3, 1, 1, 2, 0, 1, 1, 1}},
    {"runs of tiles", square(40, 12, 8, 12, 3, 1, 1)},
    {"parts of the output channels", square(1, 6, 20, 300, 3, 1, 1)},
    {"filters beyond the caches", square(3, 5, 352, 352, 3, 1, 1)},
};

// Shapes with stride 2: as above, and images whose last pixels only some tiles read.
inline const Case kStride2WinogradCases[] = {
    {"one pixel", square(2, 1, 8, 8, 3, 2, 1)},
    {"two pixels", square(2, 2, 16, 8, 3, 2, 1)},
    {"one tile", square(3, 8, 16, 16, 3, 2, 1)},
    {"less than a tile", square(3, 5, 16, 20, 3, 2, 1)},
    {"tiles", square(5, 16, 32, 40, 3, 2, 1)},
    {"tiles, odd", square(2, 17, 17, 9, 3, 2, 1)},
    {"tiles and a part", square(2, 22, 9, 33, 3, 2, 1)},
    {"many images", square(37, 7, 19, 24, 3, 2, 1)},
    {"filters of hundreds of channels", square(3, 6, 520, 512, 3, 2, 1)},
    {"the same for many tiles", square(131, 2, 352, 345, 3, 2, 1)},
    {"filters beyond the caches", square(3, 18, 352, 352, 3, 2, 1)},
    {"the same in rows of tiles", square(1, 72, 352, 352, 3, 2, 1)},
    {"rows of tiles", square(2, 64, 16, 16, 3, 2, 1)},
    {"rows of tiles, odd", square(2, 59, 24, 40, 3, 2, 1)},
    {"parts of a row", {1, 18, 300, 9, 16, 3, 3, 2, 2, 1, 1, 1, 1, 1}},
    {"oblong", {2, 41, 12, 16, 24, 3, 3, 2, 2, 1, 1, 1, 1, 1}},
    {"runs of tiles", square(40, 24, 8, 12, 3, 2, 1)},
    {"parts of the output channels", square(1, 12, 20, 300, 3, 2, 1)},
};

// Additional shapes for vectors over the batch or the width: whole vectors and parts, every number
// of output channels of a tile, images that only padding makes large enough, rows shorter than a
// vector.
inline const Case kLanesCases[] = {
    {"whole groups", square(32, 6, 1, 6, 5, 1, 2)},
    {"a part of a group", square(19, 7, 2, 7, 3, 1, 1)},
    {"one output", square(17, 9, 3, 1, 3, 1, 1)},
    {"two outputs of two channels", square(16, 5, 2, 2, 3, 1, 0)},
    {"three and four", square(18, 6, 4, 3, 3, 1, 1)},
    {"five outputs", square(16, 13, 1, 5, 3, 1, 1)},
    {"eight outputs", square(16, 10, 8, 8, 3, 1, 1)},
    {"nine outputs in two parts", square(16, 10, 3, 9, 5, 1, 2)},
    {"one pixel", square(33, 1, 3, 5, 1, 1, 1)},
    {"one pixel, large filter", square(16, 1, 2, 6, 5, 1, 2)},
    {"padding beyond the filter", square(20, 3, 2, 6, 2, 1, 5)},
    {"stride 2", square(21, 11, 3, 6, 3, 2, 1)},
    {"stride 3, filter 2", square(16, 11, 3, 6, 2, 3, 1)},
    {"dilation 2, stride 2", square(16, 12, 2, 4, 3, 2, 2, 2)},
    {"groups", square(16, 8, 12, 18, 3, 1, 1, 1, 3)},
    {"many rows of blocks", square(5, 40, 6, 7, 3, 1, 1)},
    {"oblong", {17, 3, 21, 2, 6, 3, 2, 1, 2, 1, 0, 1, 2, 1}},
    {"rows of two vectors and a part", square(2, 37, 3, 6, 5, 1, 2)},
    {"rows of whole vectors, stride 2 down", {3, 9, 32, 17, 5, 3, 3, 2, 1, 1, 1, 1, 1, 1}},
    {"padding beyond the filter in rows", {2, 4, 18, 3, 5, 2, 2, 1, 1, 1, 5, 1, 1, 1}},
    {"columns that no tap reads", {2, 5, 30, 2, 3, 1, 3, 1, 1, 0, 0, 1, 13, 1}},
};

// columns: only those that column_lanes can compute
inline std::vector<Case> all_cases(bool columns = false) {
  std::vector<Case> all(std::begin(kCases), std::end(kCases));
  all.insert(all.end(), std::begin(kLanesCases), std::end(kLanesCases));
  if (columns) std::erase_if(all, [](const Case& one) { return one.shape.stride_w != 1; });
  return all;
}

inline int64_t x_size(const ConvShape& s) { return s.n * s.h * s.w * s.c; }
inline int64_t w_size(const ConvShape& s) { return s.o * s.kh * s.kw * (s.c / s.groups); }
inline int64_t y_size(const ConvShape& s) { return s.n * s.out_h() * s.out_w() * s.o; }

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

// Scratch of exactly the requested size, filled with NaN, followed by a guard.
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

// Records the elements for which an epilogue was called, and their values.
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
  std::vector<Computed<T>> y, dx, dw;
};

// Returns the algorithm called `name`; "native" is the first one that is not Winograd. It is used
// for any shape that it can compute, whatever its rule says.
inline const ConvAlgorithm& algorithm_of(std::string_view name, const ConvRequest& request) {
  if (name != "native") return conv_algorithm(name);
  return *conv_algorithms(request, {.winograd = Winograd::off}).front();
}

inline bool is_winograd(std::string_view name) { return name.starts_with("winograd"); }

template <class T>
std::shared_ptr<const Convolution<T>> make(std::string_view name, const ConvRequest& request,
                                           ConvVariant form = {}) {
  return std::static_pointer_cast<const Convolution<T>>(
      shared_convolution(algorithm_of(name, request), request, form));
}

// Returns whether an algorithm computes a pass with inputs of type T.
template <class T>
bool takes(std::string_view algorithm, ConvPass pass, const ConvShape& s) {
  const ConvRequest request{pass, s, dtype_of<T>};
  return algorithm_of(algorithm, request).as_taken(request) == request;
}

// Runs twice, the second time with the scratch of the first run: nothing may depend on it. Then
// passes the result on in ranges.
template <class T>
void run_pass(std::string_view algorithm, ConvPass pass, const ConvShape& s, ThreadPool& pool,
              const std::vector<T>& a, const std::vector<T>& b, std::vector<Computed<T>>& out,
              int64_t pixel) {
  using Sum = Computed<T>;
  if (!takes<T>(algorithm, pass, s)) return;
  const auto convolution = make<T>(algorithm, {pass, s, dtype_of<T>});
  Scratch scratch(convolution->scratch(pool.size()));
  Seen<Sum> seen(std::ssize(out), pixel);
  convolution->run(pool, a.data(), b.data(), out.data(), scratch.data(),
                   {{}, {Seen<Sum>::apply, &seen}});
  EXPECT_TRUE(pass == ConvPass::weight_grad || (seen.once() && seen.values == out));
  const std::vector<Sum> first = out;
  convolution->run(pool, a.data(), b.data(), out.data(), scratch.data(), {});
  EXPECT_EQ(out, first);
  EXPECT_TRUE(scratch.intact()) << "scratch is overrun";
  if (pass == ConvPass::weight_grad) return;
  const auto ranges = make<T>(algorithm, {pass, s, dtype_of<T>}, {.in_ranges = true});
  Scratch own(ranges->scratch(pool.size()));
  Seen<Sum> passed(std::ssize(out), pixel);
  ranges->run(pool, a.data(), b.data(), nullptr, own.data(), {{}, {Seen<Sum>::apply, &passed}});
  EXPECT_TRUE(passed.once() && passed.values == out);
  EXPECT_TRUE(own.intact()) << "scratch is overrun";
}

// Computes the first input in a prologue; expects the same bits.
template <class T>
void run_with_prologue(std::string_view algorithm, ConvPass pass, const ConvShape& s,
                       ThreadPool& pool, const std::vector<T>& a, const std::vector<T>& b,
                       const std::vector<float>& wanted) {
  const ConvRequest request{pass, s, dtype_of<T>};
  if (!takes<T>(algorithm, pass, s)) return;
  if (!algorithm_of(algorithm, request).takes_prologue(request)) return;
  const auto convolution = make<T>(algorithm, request, {.prologue = true});
  Scratch scratch(convolution->scratch(pool.size()));
  std::vector<T> half = a;
  for (T& value : half) value = T(value / 2);
  const auto twice = [](void* context, T* to, int64_t first, int64_t count) {
    const auto& from = *static_cast<const std::vector<T>*>(context);
    ASSERT_TRUE(first >= 0 && count > 0 && first + count <= std::ssize(from));
    for (int64_t i = 0; i < count; ++i) to[i] = T(2 * from[static_cast<size_t>(first + i)]);
  };
  std::vector<float> out(wanted.size(), NAN);
  convolution->run(pool, half.data(), b.data(), out.data(), scratch.data(), {{twice, &half}, {}});
  EXPECT_EQ(out, wanted);
  EXPECT_TRUE(scratch.intact()) << "scratch is overrun";
}

// Reads prepacked filters; expects the same bits.
template <class T>
void run_with_packed(std::string_view algorithm, const ConvShape& s, ThreadPool& pool,
                     const std::vector<T>& x, const std::vector<T>& w,
                     const std::vector<Computed<T>>& wanted) {
  if (!takes<T>(algorithm, ConvPass::forward, s)) return;
  const auto convolution =
      make<T>(algorithm, {ConvPass::forward, s, dtype_of<T>}, {.packed = true});
  if (convolution->packed_elements() == 0) return;
  Scratch scratch(convolution->scratch(pool.size()));
  Scratch packed(static_cast<size_t>(convolution->packed_elements()) * sizeof(T));
  convolution->pack(pool, w.data(), static_cast<T*>(packed.data()));
  std::vector<Computed<T>> out(wanted.size(), NAN);
  convolution->run(pool, x.data(), static_cast<const T*>(packed.data()), out.data(), scratch.data(),
                   {});
  EXPECT_EQ(out, wanted);
  EXPECT_TRUE(scratch.intact() && packed.intact()) << "memory is overrun";
}

// Returns element i of a BiasActivation, computed as its formula says.
template <class T>
float activated(const BiasActivation<T>& activation, float sum, size_t i, size_t channel) {
  const auto rounded = [](float x) { return static_cast<float>(static_cast<T>(x)); };
  const auto affine = [&](float x, const float* scale, const float* bias) {
    if (scale) x = x * scale[channel];
    return rounded(bias ? x + bias[channel] : x);
  };
  float y = affine(rounded(sum), activation.scale, activation.bias);
  if (activation.residual)
    y = y + affine(activation.residual[i], activation.residual_scale, activation.residual_bias);
  if (y <= activation.low) y = activation.low;
  if (y >= activation.high) y = activation.high;
  return rounded(y);
}

// Applies scales, biases, a residual and bounds to sums in registers; expects the bits of the same
// operations on `sums`.
template <class T>
void run_with_activation(std::string_view algorithm, ConvPass pass, const ConvShape& s,
                         ThreadPool& pool, const std::vector<T>& a, const std::vector<T>& b,
                         const std::vector<float>& sums, int64_t channels) {
  if (sums.empty() || !takes<T>(algorithm, pass, s)) return;
  constexpr bool kHalf = !std::is_same_v<T, float>;
  const auto convolution = make<T>(algorithm, {pass, s, dtype_of<T>}, {.in_ranges = kHalf});
  std::vector<float> bias = values<float>(channels, 4), more = values<float>(channels, 5);
  std::vector<float> scale = values<float>(channels, 7);
  std::vector<T> residual = values<T>(std::ssize(sums), 6);
  bias[0] = -0.0f, residual[0] = T(NAN), residual.back() = T(INFINITY);
  scale.back() = 0x1p-130f, bias.back() = 0x1p-140f;  // y is denormal
  if (channels > 2) {  // rounded to 0 of either sign, before -0 is added
    scale[1] = 0x1p-140f, bias[1] = 0;
    for (size_t i = 1; i < residual.size(); i += channels) residual[i] = T(-0.0f);
  }
  std::vector<float> large = bias, small_scale = scale;  // no result is denormal
  for (size_t c = 0; c < large.size(); ++c) {
    if (std::abs(large[c]) < 0x1p-100f) large[c] = 0x1p-100f, small_scale[c] = -0x1p-100f;
    if (c % 5 == 3) large[c] = -0x1p-100f, small_scale[c] = 0x1p-101f;
  }
  Scratch scratch(convolution->scratch(pool.size()));
  for (int kind = 0; kind < (kHalf ? 15 : 6); ++kind) {
    BiasActivation<T> activation{.bias = bias.data()};
    if (kind % 3 > 0) activation.residual = residual.data();
    if (kind % 3 > 1) activation.residual_bias = more.data();
    if (kind % 6 > 2) activation.low = 0, activation.high = 0.5f;
    if (kind > 5) activation.scale = scale.data();
    if (kind > 5 && kind % 3 > 1) activation.residual_scale = scale.data();
    if (kind == 12) activation = {};
    if (kind > 12) {
      activation = {.scale = small_scale.data(), .bias = large.data()};
      if (kind > 13) activation.low = 0, activation.high = 0.5f;
    }
    activation.normal = kHalf && activation.biases_are_normal(channels);
    ASSERT_EQ(activation.normal, kHalf && kind > 11);
    std::vector<T> out(sums.size(), T(NAN));
    if (kHalf) activation.result = out.data();
    if (!convolution->applies(activation)) continue;
    Computed<T>* whole = nullptr;
    if constexpr (!kHalf) whole = out.data();
    convolution->run(pool, a.data(), b.data(), whole, scratch.data(), {{}, {}, activation});
    EXPECT_TRUE(scratch.intact()) << "scratch is overrun";
    for (size_t i = 0; i < sums.size(); ++i) {
      const float y = activated(activation, sums[i], i, i % static_cast<size_t>(channels));
      ASSERT_TRUE(std::isnan(y) ? std::isnan(static_cast<float>(out[i]))
                                : y == static_cast<float>(out[i]))
          << algorithm << " kind " << kind << " element " << i << ": " << static_cast<float>(out[i])
          << " is not " << y;
      ASSERT_EQ(std::signbit(y), std::signbit(static_cast<float>(out[i])));
    }
  }
}

template <class T>
Results<T> run(std::string_view algorithm, const ConvShape& s, int threads) {
  const auto x = values<T>(x_size(s), 1), w = values<T>(w_size(s), 2), dy = values<T>(y_size(s), 3);
  using Sums = std::vector<Computed<T>>;
  Results<T> r{Sums(y_size(s), NAN), Sums(x_size(s), NAN), Sums(w_size(s), NAN)};
  ThreadPool pool(threads);
  run_pass(algorithm, ConvPass::forward, s, pool, x, w, r.y, s.o);
  run_pass(algorithm, ConvPass::input_grad, s, pool, dy, w, r.dx, s.c);
  run_pass(algorithm, ConvPass::weight_grad, s, pool, x, dy, r.dw, 1);
  run_with_packed(algorithm, s, pool, x, w, r.y);
  if constexpr (!std::is_same_v<T, double>) {
    run_with_prologue(algorithm, ConvPass::forward, s, pool, x, w, r.y);
    run_with_prologue(algorithm, ConvPass::weight_grad, s, pool, x, dy, r.dw);
  }
  if constexpr (!std::is_same_v<T, double>) {
    run_with_activation(algorithm, ConvPass::forward, s, pool, x, w, r.y, s.o);
    run_with_activation(algorithm, ConvPass::input_grad, s, pool, dy, w, r.dx, s.c);
  }
  return r;
}

template <class T>
void compare(std::string_view algorithm, const Case& test, double tolerance) {
  const ConvShape& s = test.shape;
  const auto x = values<T>(x_size(s), 1), w = values<T>(w_size(s), 2), dy = values<T>(y_size(s), 3);
  std::vector<double> y(y_size(s)), dx(x_size(s)), dw(w_size(s));
  each_product(s, [&](int64_t i, int64_t k, int64_t j) {
    y[j] += double(x[i]) * w[k];
    dx[i] += double(dy[j]) * w[k];
    dw[k] += double(dy[j]) * x[i];
  });
  const Results<T> r = run<T>(algorithm, s, 2);
  if (takes<T>(algorithm, ConvPass::forward, s)) {
    EXPECT_LE(error(r.y, y), tolerance);
  }
  if (takes<T>(algorithm, ConvPass::input_grad, s)) {
    EXPECT_LE(error(r.dx, dx), tolerance);
  }
  if (takes<T>(algorithm, ConvPass::weight_grad, s)) {
    EXPECT_LE(error(r.dw, dw), tolerance);
  }
}

// Random shapes, most of them unusual.
class RandomShapes {
 public:
  ConvShape operator()() {
    const int64_t groups = draw(0, 3) == 0 ? draw(1, 9) : 1, in = draw(0, 4) == 0 ? 1 : draw(1, 20);
    ConvShape s{.n = draw(1, 4),
                .h = draw(1, 14),
                .w = draw(1, 14),
                .c = groups * in,
                .o = groups * (in == 1 ? 1 : draw(1, 40)),
                .kh = draw(1, 5),
                .kw = draw(1, 5),
                .stride_h = draw(1, 3),
                .stride_w = draw(1, 3),
                .pad_h = draw(0, 4),
                .pad_w = draw(0, 4),
                .dilation_h = draw(1, 3),
                .dilation_w = draw(1, 3),
                .groups = groups};
    s.h = std::max(s.h, s.dilation_h * (s.kh - 1) + 1 - 2 * s.pad_h);
    s.w = std::max(s.w, s.dilation_w * (s.kw - 1) + 1 - 2 * s.pad_w);
    return s;
  }

 private:
  int64_t draw(int64_t low, int64_t high) {
    state_ = state_ * 1664525u + 1013904223u;
    return low + static_cast<int64_t>(state_ >> 8) % (high - low + 1);
  }
  uint32_t state_ = 12345;
};

}  // namespace tessera
