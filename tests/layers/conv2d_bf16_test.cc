// Convolutions of bfloat16: direct ones, which multiply pairs, Winograd's, and how they are chosen.
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/runtime/simd/isa.h"
#include "tessera/tests/engine/same_bits.h"
#include "tessera/tests/layers/conv2d_runs.h"

#if defined(__x86_64__) && !defined(TESSERA_PORTABLE)
#include "tessera/layers/shared/gemm_simd.h"
#endif

namespace tessera {
namespace {

class Conv2dPairs : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_native_kernels()) GTEST_SKIP() << "no native kernels for " << isa_name(current_isa());
  }
};

TEST_F(Conv2dPairs, AgreeWithTheDefinition) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.why);
    if (!c.shape.depthwise()) compare<bfloat16>("direct", c, 3e-6);
  }
  RandomShapes draw;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    if (const Case c{"", draw()}; !c.shape.depthwise()) compare<bfloat16>("direct", c, 1e-5);
  }
}

TEST_F(Conv2dPairs, SameBitsForAnyNumberOfThreads) {
  for (const Case& c : all_cases()) {
    if (c.shape.depthwise()) continue;
    const Results<bfloat16> one = run<bfloat16>("direct", c.shape, 1);
    const Results<bfloat16> many = run<bfloat16>("direct", c.shape, 3);
    EXPECT_TRUE(one.y == many.y && one.dx == many.dx) << c.why;
    if (takes<bfloat16>("direct", ConvPass::weight_grad, c.shape)) {
      EXPECT_EQ(one.dw, many.dw) << c.why;
    }
  }
}

// Others read bfloat16 and compute in float32.
TEST_F(Conv2dPairs, DepthwiseFiltersReadThem) {
  int applied = 0;
  for (const Case& c : all_cases()) {
    if (!conv_algorithm("depthwise3x3").applies({ConvPass::forward, c.shape}, {})) continue;
    SCOPED_TRACE(c.why);
    ++applied;
    compare<bfloat16>("depthwise3x3", c, 3e-6);
  }
  EXPECT_GE(applied, 3);
}

// Elsewhere a scalar program computes them (see run_with_activation()).
TEST_F(Conv2dPairs, ActivationsAreAppliedToSumsInRegisters) {
  bfloat16 y;
  const BiasActivation<bfloat16> rounding{.result = &y};
  const auto applies = [&](const char* algorithm, const ConvShape& s) {
    return make<bfloat16>(algorithm, {ConvPass::forward, s, DType::bf16}, {.in_ranges = true})
        ->applies(rounding);
  };
  EXPECT_EQ(applies("direct", square(1, 7, 16, 40, 1, 1, 0)), current_isa() == Isa::avx512_bf16);
  EXPECT_EQ(applies("depthwise3x3", square(1, 7, 40, 40, 3, 1, 1, 1, 40)),
            current_isa() >= Isa::avx512);
}

TEST_F(Conv2dPairs, WinogradReadsThem) {
  for (const auto& [algorithm, cases] :
       {std::pair("winograd2", std::span<const Case>(kWinogradCases)),
        std::pair("winograd4", std::span<const Case>(kWinogradCases)),
        std::pair("winograd4", std::span<const Case>(kStride2WinogradCases))})
    for (const Case& c : cases) {
      SCOPED_TRACE(c.why);
      compare<bfloat16>(algorithm, c, 5e-6);
      const Results<bfloat16> one = run<bfloat16>(algorithm, c.shape, 1);
      const Results<bfloat16> many = run<bfloat16>(algorithm, c.shape, 3);
      EXPECT_TRUE(one.y == many.y && one.dx == many.dx && one.dw == many.dw);
    }
}

// 1x1 filters and most with a stride are multiplied in pairs; Winograd needs fewer products; lanes
// get float32.
TEST_F(Conv2dPairs, AreTakenWhereTheySaveMost) {
  const auto chosen = [](const ConvShape& s) {
    std::vector<std::string> names;
    for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad}) {
      const ConvRequest request{pass, s, DType::bf16};
      const ConvAlgorithm& first = *conv_algorithms(request, {}).front();
      names.push_back(std::string(first.name) + (first.takes_half(request) ? " bf16" : ""));
    }
    return names;
  };
  const std::vector<std::string> pairs(3, "direct bf16"), winograd(3, "winograd4 bf16");
  for (const ConvShape& s : {square(16, 56, 64, 256, 1, 1, 0), square(16, 56, 256, 512, 1, 2, 0),
                             square(16, 14, 64, 96, 3, 1, 1, 2)})
    EXPECT_EQ(chosen(s), pairs) << s.c << " channels";
  EXPECT_EQ(chosen(square(16, 28, 128, 128, 3, 2, 1))[0], "direct bf16");
  EXPECT_EQ(chosen(square(16, 224, 3, 64, 7, 2, 3))[2], "direct bf16");
  EXPECT_EQ(chosen(square(128, 32, 3, 16, 3, 1, 1))[2], "direct bf16");
  EXPECT_EQ(chosen(square(128, 32, 16, 16, 3, 1, 1)),
            (std::vector<std::string>{"direct bf16", "direct bf16", "winograd4 bf16"}));
  EXPECT_EQ(chosen(square(128, 32, 32, 32, 3, 1, 1)), winograd);
  EXPECT_EQ(chosen(square(128, 32, 64, 64, 3, 1, 1)), winograd);
  EXPECT_EQ(chosen(square(64, 28, 1, 6, 5, 1, 2)), std::vector<std::string>(3, "image_lanes"));
  EXPECT_EQ(chosen(square(16, 28, 64, 64, 3, 1, 1, 1, 64)),
            std::vector<std::string>(3, "depthwise3x3 bf16"));
}

class Bf16InstructionSets : public SameBits {};

TEST_F(Bf16InstructionSets, ConvolutionsGiveTheSameBits) {
  RandomShapes draw;
  std::vector<Case> cases = all_cases();
  for (int i = 0; i < 200; ++i) cases.push_back({"random", draw()});
  for (const Case& c : cases) {
    const ConvRequest request{ConvPass::forward, c.shape, DType::bf16};
    if (conv_algorithm("depthwise3x3").applies(request, {})) {
      const Results<bfloat16> r = run<bfloat16>("depthwise3x3", c.shape, 2);
      record(std::string(c.why) + " y", r.y), record("dx", r.dx), record("dw", r.dw);
    }
    if (c.shape.depthwise()) continue;
    const Results<bfloat16> r = run<bfloat16>("direct", c.shape, 2);
    record(std::string(c.why) + " y", r.y), record("dx", r.dx);
    if (takes<bfloat16>("direct", ConvPass::weight_grad, c.shape)) record("dw", r.dw);
  }
  for (const Case& c : kWinogradCases) {
    const Results<bfloat16> r = run<bfloat16>("winograd4", c.shape, 2);
    record(std::string(c.why) + " y", r.y), record("dx", r.dx), record("dw", r.dw);
  }
}

#if defined(__x86_64__) && !defined(TESSERA_PORTABLE)
// Any finite operands, denormal ones and sums that overflow or become denormal among them.
TEST_F(Bf16InstructionSets, ProductsOfAnyNumbersGiveTheSameBits) {
  constexpr int64_t kRows = 13, kColumns = 32;
  uint32_t state = 7;
  const auto draw = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
  for (int round = 0; round < 200; ++round) {
    const uint32_t spread = round % 4 == 0 ? 255 : 40;
    const int64_t depth = std::array{41, 133, 7, 90}[round / 4 % 4];
    std::vector<bfloat16> a(kRows * depth), b(depth * kColumns);
    for (std::vector<bfloat16>* all : {&a, &b})
      for (bfloat16& x : *all) {
        const uint32_t exponent = (draw() % spread + (round % 4 == 1 ? 0 : 50)) % 255;
        x.bits = static_cast<uint16_t>(draw() % 2 << 15 | exponent << 7 | draw() % 128);
      }
    const GemmMicrokernelsOf<bfloat16>& kernels = microkernels<bfloat16>();
    const int64_t width = 2 * kernels.lanes;
    std::vector<bfloat16> packed((depth + 1) * kColumns);
    std::vector<float> c(kRows * kColumns, 0x1p-126f);
    std::vector<int64_t> a_rows, c_rows;
    for (int64_t i = 0; i < kRows; ++i) a_rows.push_back(i * depth), c_rows.push_back(i * kColumns);
    const Segment all{0, depth, 0};
    for (int64_t j = 0; j < kColumns; j += width) {
      kernels.copy_points(b.data() + j, kColumns, depth, width, packed.data(), 2 * width);
      ImplicitGemmProduct<bfloat16> p{};
      p.a = a.data(), p.a_rows = a_rows.data(), p.rows = kRows;
      p.segments = &all, p.segment_count = 1;
      p.b = packed.data(), p.b_stride = 2 * width, p.vectors = 2, p.columns = width;
      p.c = c.data() + j, p.c_rows = c_rows.data(), p.accumulate = true;
      kernels.gather(p);
    }
    const int64_t points = (depth + 1) / 2;
    std::vector<bfloat16> panels(2 * kMicroPanelRows * 2 * points);
    kernels.pack_micro_panels(a.data(), kRows, depth, kRows, panels.data());
    kernels.copy_points(b.data(), kColumns, depth, kColumns, packed.data(), 2 * kColumns);
    OuterProduct<bfloat16> p{};
    p.a = panels.data(), p.a_point = 2 * kMicroPanelRows, p.a_panel = p.a_point * points;
    p.b = packed.data(), p.b_point = 2 * kColumns, p.lines = 1, p.points = points;
    p.rows = kRows, p.vectors = 2, p.columns = kColumns;
    c.resize(2 * kRows * kColumns);
    p.c = c.data() + kRows * kColumns, p.c_stride = kColumns;
    kernels.outer(p);
    for (float& x : c)
      if (x != x) x = 0;  // the bits of NaN may differ
    record(std::to_string(round), c);
  }
}
#endif

}  // namespace
}  // namespace tessera
