// The convolution algorithms in float32 and float64.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/layers/conv2d/cpu/lanes.h"
#include "tessera/layers/conv2d/cpu/winograd.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/tests/engine/same_bits.h"
#include "tessera/tests/layers/conv2d_runs.h"

namespace tessera {
namespace {

class Conv2dAlgorithms : public testing::TestWithParam<std::tuple<const char*, Case>> {
 protected:
  std::string_view algorithm() const { return std::get<0>(GetParam()); }
  const Case& test() const { return std::get<1>(GetParam()); }
  void SetUp() override {
    if (algorithm() != "eigen" && !has_native_kernels())
      GTEST_SKIP() << "no native kernels for " << isa_name(current_isa());
  }
};

TEST_P(Conv2dAlgorithms, AgreeWithTheDefinition) {
  compare<float>(algorithm(), test(), is_winograd(algorithm()) ? 5e-6 : 3e-6);
  if (!is_winograd(algorithm())) compare<double>(algorithm(), test(), 1e-14);
}

TEST_P(Conv2dAlgorithms, SameBitsForAnyNumberOfThreads) {
  const ConvShape& s = test().shape;
  const Results<float> one = run<float>(algorithm(), s, 1);
  for (int threads : {2, 3, 5}) {
    const Results<float> many = run<float>(algorithm(), s, threads);
    EXPECT_TRUE(one.y == many.y && one.dx == many.dx && one.dw == many.dw) << threads << " threads";
  }
}

template <class T>
void expect_close(const std::vector<T>& a, const std::vector<T>& b, double tolerance) {
  EXPECT_LE(error(a, std::vector<double>(b.begin(), b.end())), tolerance);
}

TEST(Conv2dAlgorithm, NativeAndEigenAgreeOnRandomShapes) {
  if (!has_native_kernels()) GTEST_SKIP() << "no native kernels for " << isa_name(current_isa());
  RandomShapes draw;
  for (int i = 0; i < 150; ++i) {
    const ConvShape s = draw();
    SCOPED_TRACE(i);
    const auto a = run<float>("native", s, 2), b = run<float>("eigen", s, 2);
    expect_close(a.y, b.y, 1e-5), expect_close(a.dx, b.dx, 1e-5), expect_close(a.dw, b.dw, 1e-5);
    const auto c = run<double>("native", s, 2), d = run<double>("eigen", s, 2);
    expect_close(c.y, d.y, 1e-12), expect_close(c.dx, d.dx, 1e-12), expect_close(c.dw, d.dw, 1e-12);
  }
}

// The sum of a product that rounds to -0, and of a bias of -0, is -0: as by ScalarOp::max, the ReLU
// of it is 0.
TEST(Conv2dAlgorithm, AnActivationMakesNegativeZeroPositive) {
  if (!has_native_kernels()) GTEST_SKIP() << "no native kernels for " << isa_name(current_isa());
  ThreadPool pool(1);
  for (const ConvShape& s : {square(1, 4, 1, 40, 1, 1, 0), square(1, 4, 40, 40, 3, 1, 1, 1, 40)}) {
    const auto convolution = make<float>("native", {ConvPass::forward, s});
    Scratch scratch(convolution->scratch(pool.size()));
    const std::vector<float> x(x_size(s), 1e-30f), w(w_size(s), -1e-30f), bias(s.o, -0.0f);
    for (const bool bounded : {false, true}) {
      BiasActivation<float> activation{.bias = bias.data()};
      if (bounded) activation.low = 0;
      ASSERT_TRUE(convolution->applies(activation));
      std::vector<float> y(y_size(s), NAN);
      convolution->run(pool, x.data(), w.data(), y.data(), scratch.data(), {{}, {}, activation});
      for (const float value : y) ASSERT_TRUE(value == 0 && std::signbit(value) != bounded);
    }
  }
}

class Conv2dInstructionSets : public SameBits {
 protected:
  template <class T = float>
  void compute(std::string_view algorithm, const ConvShape& s, const std::string& why) {
    const Results<T> r = run<T>(algorithm, s, 2);
    const std::string what = fmt::format("{} {} {} bytes", algorithm, why, sizeof(T));
    record(what + " y", r.y), record(what + " dx", r.dx), record(what + " dw", r.dw);
  }
};

TEST_F(Conv2dInstructionSets, AlgorithmsGiveTheSameBits) {
  for (const std::string algorithm : {"native", "direct", "image_lanes", "column_lanes"})
    for (const Case& c : all_cases(algorithm == "column_lanes")) {
      compute(algorithm, c.shape, c.why);
      compute<double>(algorithm, c.shape, c.why);
    }
  for (const Case& c : kWinogradCases)
    for (const char* algorithm : {"winograd2", "winograd4"}) compute(algorithm, c.shape, c.why);
  for (const Case& c : kStride2WinogradCases) compute("winograd4", c.shape, c.why);
}

// The rule chooses the same algorithms.
TEST_F(Conv2dInstructionSets, RandomShapesAndBatchesGiveTheSameBits) {
  RandomShapes draw;
  for (int i = 0; i < 300; ++i) {
    ConvShape s = draw();
    if (i % 2) s.n = 1 + 9 * i % 80;
    compute("native", s, std::to_string(i));
    if (i % 2 == 0) compute<double>("native", s, std::to_string(i));
  }
}

std::string case_name(const testing::TestParamInfo<std::tuple<const char*, Case>>& info) {
  const auto& [algorithm, test] = info.param;
  std::string name = std::string(algorithm) + "_" + std::to_string(info.index) + "_" + test.why;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Conv2dAlgorithms,
                         testing::Combine(testing::Values("native", "direct", "eigen",
                                                          "image_lanes"),
                                          testing::ValuesIn(kCases)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(LanesShapes, Conv2dAlgorithms,
                         testing::Combine(testing::Values("native", "direct", "image_lanes"),
                                          testing::ValuesIn(kLanesCases)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(ColumnsShapes, Conv2dAlgorithms,
                         testing::Combine(testing::Values("column_lanes"),
                                          testing::ValuesIn(all_cases(true))),
                         case_name);
INSTANTIATE_TEST_SUITE_P(WinogradShapes, Conv2dAlgorithms,
                         testing::Combine(testing::Values("winograd2", "winograd4"),
                                          testing::ValuesIn(kWinogradCases)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Stride2WinogradShapes, Conv2dAlgorithms,
                         testing::Combine(testing::Values("winograd4"),
                                          testing::ValuesIn(kStride2WinogradCases)),
                         case_name);

// Clear cases of the rule: shapes that Winograd is for, and shapes that must not use it.
TEST(Winograd, IsTakenWhereItComputesLess) {
  if (!has_native_kernels()) GTEST_SKIP() << "no native kernels for " << isa_name(current_isa());
  if constexpr (kNativeKernels) {
    const auto tiles = [](const ConvShape& s) {
      return std::vector<int>{winograd_tile({ConvPass::forward, s}),
                              winograd_tile({ConvPass::input_grad, s}),
                              winograd_tile({ConvPass::weight_grad, s})};
    };
    const std::vector<int> direct(3, 0), four(3, 4);
    for (const ConvShape& s :
         {square(128, 32, 16, 16, 3, 1, 1), square(128, 32, 64, 64, 3, 1, 1),
          square(128, 4, 512, 512, 3, 1, 1), square(16, 7, 512, 512, 3, 1, 1),
          square(32, 8, 640, 640, 3, 1, 1), square(16, 14, 256, 256, 3, 1, 1),
          square(128, 32, 64, 128, 3, 2, 1), square(128, 8, 256, 512, 3, 2, 1)})
      EXPECT_EQ(tiles(s), four) << s.h << "x" << s.w << ", " << s.c << " channels";
    for (const ConvShape& s :
         {square(128, 32, 3, 64, 3, 1, 1), square(128, 32, 64, 64, 3, 2, 0),
          square(128, 32, 64, 64, 3, 3, 1), square(128, 32, 64, 64, 3, 2, 2),
          ConvShape{128, 32, 32, 64, 64, 3, 3, 2, 1, 1, 1, 1, 1, 1},
          ConvShape{128, 32, 32, 64, 64, 3, 3, 1, 2, 1, 1, 1, 1, 1},
          ConvShape{128, 32, 32, 64, 64, 3, 3, 2, 2, 1, 0, 1, 1, 1},
          square(128, 32, 64, 64, 1, 1, 0), square(128, 32, 64, 64, 5, 1, 2),
          square(128, 32, 64, 64, 3, 1, 2, 2), square(128, 32, 64, 64, 3, 1, 1, 1, 64),
          square(64, 1, 64, 64, 3, 1, 1), square(1, 4, 512, 512, 3, 1, 1),
          square(0, 32, 64, 64, 3, 1, 1)})
      EXPECT_EQ(tiles(s), direct) << s.h << "x" << s.w << ", " << s.c << " channels";
    EXPECT_EQ(winograd_tile({ConvPass::forward, square(512, 6, 128, 128, 3, 1, 1)}), 2);
  }
}

// LeNet's convolutions with batches and with one image, and shapes whose channels fill vectors.
TEST(Lanes, AreTakenWhereChannelsFillNoVectors) {
  if (!has_native_kernels()) GTEST_SKIP() << "no native kernels for " << isa_name(current_isa());
  if constexpr (kNativeKernels) {
    using Passes = std::vector<std::optional<VectorAxis>>;
    const auto passes = [](const ConvShape& s) {
      return Passes{vector_axis_for({ConvPass::forward, s}),
                    vector_axis_for({ConvPass::input_grad, s}),
                    vector_axis_for({ConvPass::weight_grad, s})};
    };
    const Passes images(3, VectorAxis::batch), columns(3, VectorAxis::width), none(3);
    EXPECT_EQ(passes(square(64, 28, 1, 6, 5, 1, 2)), images);
    EXPECT_EQ(passes(square(64, 14, 32, 32, 3, 1, 1, 1, 8)), images);
    EXPECT_EQ(passes(square(1, 28, 1, 6, 5, 1, 2)), columns);
    EXPECT_EQ(passes(square(64, 14, 6, 16, 5, 1, 0))[1], VectorAxis::batch);
    EXPECT_EQ(passes(square(1, 14, 6, 16, 5, 1, 0))[1], VectorAxis::width);
    for (const ConvShape& s : {square(1, 28, 1, 6, 5, 2, 2), square(64, 32, 64, 64, 3, 1, 1),
                               square(64, 32, 6, 6, 1, 1, 0), square(64, 32, 8, 8, 3, 1, 1, 1, 8),
                               square(0, 28, 1, 6, 5, 1, 2), square(16, 2048, 64, 1, 3, 1, 1)})
      EXPECT_EQ(passes(s), none) << s.n << " images, " << s.c << " channels";
  }
}

TEST(Conv2dScratch, StaysSmall) {
  for (const ConvShape& s : {square(32, 224, 3, 64, 7, 2, 3), square(32, 56, 64, 64, 3, 1, 1),
                             square(32, 56, 256, 64, 1, 1, 0), square(32, 14, 1024, 2048, 1, 2, 0),
                             square(32, 7, 512, 512, 3, 1, 1), square(128, 32, 64, 64, 3, 1, 1)})
    for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad})
      for (const char* algorithm : {"native", "eigen"})
        EXPECT_LE(make<float>(algorithm, {pass, s})->scratch(8), size_t{32} << 20);
}

std::string names_of(const ConvRequest& request, const CpuSettings& settings = {}) {
  std::string names;
  for (const ConvAlgorithm* one : conv_algorithms(request, settings))
    names += std::string(one->name) + " ";
  return names;
}

TEST(ConvAlgorithms, AreListedInOrderOfPreference) {
  const ConvShape plain = square(64, 32, 16, 16, 3, 1, 1);
  if (!has_native_kernels()) {
    EXPECT_EQ(names_of({ConvPass::forward, plain}), "eigen ");
    return;
  }
  EXPECT_EQ(names_of({ConvPass::forward, plain}), "winograd4 direct eigen ");
  EXPECT_EQ(names_of({ConvPass::forward, plain}, {.winograd = Winograd::off}), "direct eigen ");
  EXPECT_EQ(names_of({ConvPass::forward, plain, DType::f64}), "direct eigen ");
  for (const ConvPass pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad}) {
    EXPECT_EQ(names_of({pass, square(8, 16, 64, 64, 3, 2, 1, 1, 64)}),
              "depthwise3x3 direct eigen ");
    EXPECT_EQ(names_of({pass, square(8, 16, 64, 64, 5, 2, 2, 1, 64)}), "direct eigen ");
    EXPECT_EQ(names_of({pass, square(64, 28, 1, 6, 5, 1, 2)}), "image_lanes direct eigen ");
    EXPECT_EQ(names_of({pass, square(1, 28, 1, 6, 5, 1, 2)}), "column_lanes direct eigen ");
  }
}

TEST(ConvAlgorithms, EqualRequestsShareOneConvolution) {
  const ConvShape shape{.n = 2, .h = 9, .w = 9, .c = 8, .o = 8, .kh = 3, .kw = 3};
  for (const char* name : {"native", "eigen"}) {
    const auto one = make<float>(name, {ConvPass::forward, shape});
    EXPECT_EQ(one, make<float>(name, {ConvPass::forward, shape}));
    EXPECT_NE(one, make<float>(name, {ConvPass::input_grad, shape}));
  }
}

}  // namespace
}  // namespace tessera