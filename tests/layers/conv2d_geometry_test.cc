// Compares the elements that an implicit GEMM convolution reads and writes with the definition.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/layers/conv2d/cpu/geometry.h"

namespace tessera {
namespace {

ConvShape line(int64_t size, int64_t taps, int64_t stride, int64_t pad, int64_t dilation) {
  return {.h = size,
          .w = 3,
          .kh = taps,
          .kw = 2,
          .stride_h = stride,
          .pad_h = pad,
          .dilation_h = dilation};
}

// The pairs (tap, input) that each output of one axis reads, without those in the padding.
using Reads = std::map<int64_t, std::set<std::pair<int64_t, int64_t>>>;

Reads gathered(const ConvGeometry& g) {
  Reads reads;
  for (int64_t p = 0; p < (g.backward ? g.out_step_h : 1); ++p) {
    const ConvAxis a = g.axis(true, p * g.out_step_w);
    for (int64_t q = 0; q < a.count; ++q) {
      auto [found, is_new] = reads.try_emplace(a.first + q * g.out_step_h);
      EXPECT_TRUE(is_new) << "output " << found->first << " is written twice";
      for (int64_t t = 0; t < a.taps; ++t) {
        const int64_t in = q * g.in_step_h + a.base + t * a.spacing;
        if (in >= 0 && in < g.in_h) found->second.insert({a.first_tap + t * a.tap_step, in});
      }
    }
  }
  return reads;
}

Reads by_definition(const ConvShape& s, bool backward) {
  Reads reads;
  for (int64_t i = 0; i < (backward ? s.h : s.out_h()); ++i) reads[i];
  for (int64_t y = 0; y < s.out_h(); ++y)
    for (int64_t u = 0; u < s.kh; ++u) {
      const int64_t x = y * s.stride_h - s.pad_h + u * s.dilation_h;
      if (x < 0 || x >= s.h) continue;
      backward ? reads[x].insert({u, y}) : reads[y].insert({u, x});
    }
  return reads;
}

std::vector<ConvShape> lines() {
  std::vector<ConvShape> all;
  for (int64_t size : {1, 2, 5, 8, 13})
    for (int64_t taps : {1, 2, 3, 5})
      for (int64_t stride : {1, 2, 3, 4})
        for (int64_t pad : {0, 1, 3})
          for (int64_t dilation : {1, 2, 3})
            if (dilation * (taps - 1) + 1 <= size + 2 * pad)
              all.push_back(line(size, taps, stride, pad, dilation));
  return all;
}

std::string text(const ConvShape& s) {
  return std::to_string(s.h) + " taps " + std::to_string(s.kh) + " stride " +
         std::to_string(s.stride_h) + " pad " + std::to_string(s.pad_h) + " dilation " +
         std::to_string(s.dilation_h);
}

TEST(ConvGeometry, EveryOutputReadsWhatTheDefinitionSays) {
  for (const ConvShape& s : lines())
    for (bool backward : {false, true})
      EXPECT_EQ(gathered(ConvGeometry(s, backward)), by_definition(s, backward))
          << text(s) << (backward ? " backward" : "");
}

TEST(ConvGeometry, TheExtentHoldsAllThatIsRead) {
  for (const ConvShape& s : lines())
    for (bool backward : {false, true}) {
      const ConvGeometry g(s, backward);
      for (int64_t p = 0; p < (backward ? g.out_step_h : 1); ++p) {
        const ConvAxis a = g.axis(true, p * g.out_step_w);
        EXPECT_LE(a.count, g.rows.count);
        if (a.count == 0 || a.taps == 0) continue;
        const int64_t last = a.base + (a.taps - 1) * a.spacing;
        EXPECT_LE(g.rows.base, a.base) << text(s);
        EXPECT_LT(last, g.rows.reach) << text(s);
        EXPECT_TRUE(!g.rows.inside || (a.count - 1) * g.in_step_h + last < g.in_h) << text(s);
      }
    }
}

TEST(ConvGeometry, APointwiseConvolutionIsOneColumnOfPixels) {
  const ConvGeometry g({.n = 2, .h = 3, .w = 5, .c = 7, .o = 4}, true);
  EXPECT_EQ(g.n, 1);
  EXPECT_EQ(std::vector({g.in_h, g.in_w, g.in_c}), (std::vector<int64_t>{30, 1, 4}));
  EXPECT_EQ(std::vector({g.out_h, g.out_w, g.out_c}), (std::vector<int64_t>{30, 1, 7}));
  EXPECT_TRUE(g.direct);
}

TEST(ConvGeometry, ThePhasesInTheDrawing) {
  const ConvGeometry g(line(5, 3, 2, 1, 1), true);
  const ConvAxis even = g.axis(true, 0), odd = g.axis(true, 1);
  EXPECT_EQ(std::vector({even.first, even.count, even.taps, even.base, even.first_tap}),
            (std::vector<int64_t>{0, 3, 1, 0, 1}));
  EXPECT_EQ(std::vector({odd.first, odd.count, odd.taps, odd.base, odd.first_tap, odd.tap_step}),
            (std::vector<int64_t>{1, 2, 2, 0, 2, -2}));
}

TEST(ImplicitGemmTiling, TasksCoverEveryRowOnceAndFitTheCache) {
  for (int64_t n : {1, 3, 64})
    for (int64_t size : {1, 7, 32, 224})
      for (int64_t c : {3, 16, 512})
        for (int64_t stride : {1, 2})
          for (bool backward : {false, true}) {
            const ConvShape s{.n = n,
                              .h = size,
                              .w = size,
                              .c = c,
                              .o = c,
                              .kh = 3,
                              .kw = 3,
                              .stride_h = stride,
                              .stride_w = stride,
                              .pad_h = 1,
                              .pad_w = 1};
            const ConvGeometry g(s, backward);
            const ImplicitGemmTiling t(g, DType::f32);
            EXPECT_GE(t.images * t.rows, 1);
            EXPECT_TRUE(t.images == 1 || t.rows == g.rows.count);
            EXPECT_EQ(t.first_row(0), 0);
            EXPECT_EQ(t.first_row(t.blocks_per_image), g.rows.count);
            for (int64_t i = 0; i < t.blocks_per_image; ++i) {
              const int64_t rows = t.first_row(i + 1) - t.first_row(i);
              EXPECT_TRUE(rows >= 1 && rows <= t.rows) << rows << " of " << t.rows;
            }
            EXPECT_TRUE(t.tasks % 2 == 0 || t.tasks >= 16 || t.blocks_per_image == 1) << t.tasks;
            EXPECT_EQ(t.tasks, (n + t.images - 1) / t.images * t.blocks_per_image);
            // One row of the largest images exceeds half of L2 (256 KB); no block exceeds 8 times
            // that.
            EXPECT_LE(t.block_elements(g) * 4, int64_t{2} << 20);
          }
}

// Thread t of a pool runs a contiguous range of tasks. A part of a tile costs as much as a whole.
TEST(ImplicitGemmTiling, ThreadsShareThePixelsOfOneImage) {
  for (const int64_t size : {7, 10, 14, 28, 56})
    for (const int64_t c : {96, 384, 960})
      for (const int64_t threads : {2, 4}) {
        if (size * size < threads * 24) continue;  // the smallest task has 24 pixels
        const ConvShape s{.n = 1, .h = size, .w = size, .c = c, .o = 384, .kh = 1, .kw = 1};
        const ImplicitGemmTiling t(ConvGeometry(s, false), DType::f32);
        EXPECT_EQ(t.by_channels, c * 384 * 4 > 128 << 10 && size < 14);
        if (t.by_channels) continue;
        int64_t most = 0, all = 0;
        for (int64_t thread = 0; thread < threads; ++thread) {
          const int64_t share = t.tasks / threads, extra = t.tasks % threads;
          const int64_t first = thread * share + std::min(thread, extra);
          const int64_t last = first + share + (thread < extra ? 1 : 0);
          const int64_t pixels = t.first_row(last) - t.first_row(first);
          most = std::max(most, (pixels + 7) / 8), all += pixels;
        }
        EXPECT_EQ(all, size * size);
        EXPECT_LE(static_cast<double>(most * threads * 8), 1.34 * static_cast<double>(all))
            << size << " " << c << " " << threads;
      }
}

}  // namespace
}  // namespace tessera
