// Compares ops on a GPU with the CPU, within rounding. Skipped if there is no GPU.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "tessera/engine/eager.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

class CudaOps : public testing::TestWithParam<DType> {
 protected:
  const SettingsScope exact_{{.gpu = {.tf32 = false}}};
  void SetUp() override {
    if (std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }

  static std::vector<double> doubles(const Tensor& x) {
    if (x.dtype() == DType::f64) return x.to_vector<double>();
    std::vector<float> values = x.to_vector<float>();
    return {values.begin(), values.end()};
  }

  // Returns max |gpu - cpu| / max |cpu| of the result of `compute` for inputs of these shapes.
  static double difference(const std::vector<Shape>& shapes,
                           const std::function<Tensor(const Tensors&)>& compute) {
    std::vector<double> results[2];
    for (const char* device : {"cpu:0", "gpu:0"}) {
      Tensors inputs;
      for (const Shape& shape : shapes)
        inputs.push_back(copy(random_uniform(shape, inputs.size() + 1, 0.5, 1.5, GetParam()),
                              parse_device(device)));
      DeviceScope scope(device);
      Tensor y = compute(inputs);
      EXPECT_EQ(y.device().name(), device);
      results[device[0] == 'g'] = doubles(y);
    }
    if (results[0].size() != results[1].size()) return INFINITY;
    double worst = 0, largest = 1e-30;
    for (size_t i = 0; i < results[0].size(); ++i) {
      worst = std::max(worst, std::abs(results[0][i] - results[1][i]));
      largest = std::max(largest, std::abs(results[0][i]));
    }
    return worst / largest;
  }

  static double tolerance() { return GetParam() == DType::f64 ? 1e-13 : 1e-5; }
};

TEST_P(CudaOps, MatmulTransposedOrNot) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const Shape a = ta ? Shape{33, 65} : Shape{65, 33}, b = tb ? Shape{17, 33} : Shape{33, 17};
      EXPECT_LE(difference({a, b},
                           [&](const Tensors& in) {
                             return matmul(in[0], in[1], {ta, tb});
                           }),
                tolerance())
          << ta << tb;
    }
}

TEST_P(CudaOps, MatmulOfOneRowAndOfManySums) {
  auto product = [](const Tensors& in) { return matmul(in[0], in[1]); };
  EXPECT_LE(difference({{1, 7}, {7, 1}}, product), tolerance());
  EXPECT_LE(difference({{16, 20'000}, {20'000, 16}}, product), tolerance());
  EXPECT_LE(difference({{512, 256}, {256, 384}}, product), tolerance());
}

TEST_P(CudaOps, MatmulOfPairs) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const Shape a = ta ? Shape{2, 3, 7, 5} : Shape{2, 3, 5, 7};
      const Shape b = tb ? Shape{3, 4, 7} : Shape{3, 7, 4};
      EXPECT_LE(difference({a, b},
                           [&](const Tensors& in) {
                             return matmul(in[0], in[1], {ta, tb});
                           }),
                tolerance())
          << ta << tb;
    }
  const auto product = [](const Tensors& in) { return matmul(in[0], in[1]); };
  EXPECT_EQ(difference({{0, 3, 4}, {0, 4, 5}}, product), 0);
  EXPECT_EQ(difference({{2, 3, 0}, {2, 0, 5}}, product), 0);
}

// Rows that start inside a block: the library must not assume their alignment.
TEST_P(CudaOps, MatmulOfAViewThatIsNotAligned) {
  EXPECT_LE(difference({{9, 3}, {3, 5}},
                       [](const Tensors& in) { return matmul(rows(in[0], 1, 8), in[1]); }),
            tolerance());
}

// Tensor cores round the factors of float32 if tf32 is set, and never those of float64.
TEST_P(CudaOps, MatmulWithTf32) {
  const auto product = [](const Tensors& in) { return matmul(in[0], in[1]); };
  const double found = [&] {
    const SettingsScope tf32({.gpu = {.tf32 = true}});
    return difference({{64, 64}, {64, 64}}, product);
  }();
  EXPECT_LE(found, GetParam() == DType::f64 ? 1e-13 : 2e-3);
  const DeviceProperties* const properties = context(Device{DeviceKind::gpu, 0}).properties();
  if (GetParam() == DType::f32 && properties->major >= 8) {
    EXPECT_GT(found, 1e-6);
  }
}

using CudaProducts = OnGpu;

// Factors of 16 bits; a float32 result has no other rounding, and may add a bias.
TEST_F(CudaProducts, Of16BitsHaveTheResultsOfTheCpu) {
  constexpr DType kHalves[] = {DType::bf16, DType::f16};
  const auto some = [](const Shape& shape, uint64_t key) {
    return random_normal(shape, key, 0, 1, DType::f32);
  };
  for (const bool wide : {false, true})
    for (const auto& [ta, tb] : {std::pair(false, false), std::pair(true, false),
                                 std::pair(false, true), std::pair(true, true)}) {
      const DeviceFunction f = [=](const Tensors& in) -> Tensors {
        const Tensor y = matmul(in[0], in[1], {ta, tb, wide && is_half(in[0].dtype())});
        return {wide ? y + cast(in[2], y.dtype()) : y};
      };
      const Tensors in{some(ta ? Shape{33, 65} : Shape{65, 33}, 1),
                       some(tb ? Shape{17, 33} : Shape{33, 17}, 2), some({17}, 3)};
      expect_gpu_matches(f, in, kHalves);
    }
  const DeviceFunction pairs = [](const Tensors& in) -> Tensors { return {matmul(in[0], in[1])}; };
  expect_gpu_matches(pairs, {some({2, 3, 5, 7}, 1), some({3, 7, 4}, 2)}, kHalves);
  expect_gpu_matches(pairs, {some({3, 0}, 1), some({0, 4}, 2)}, kHalves);
}

TEST_P(CudaOps, MatmulWithoutElements) {
  auto product = [](const Tensors& in) { return matmul(in[0], in[1]); };
  EXPECT_EQ(difference({{3, 0}, {0, 4}}, product), 0);
  EXPECT_EQ(difference({{0, 3}, {3, 4}}, product), 0);
}

TEST_P(CudaOps, EveryInstruction) {
  using Op = ScalarOp;
  for (int i = 0; i <= static_cast<int>(Op::sigmoid); ++i) {
    ScalarBuilder b(3);
    const auto instruction = b.push(static_cast<Op>(i), 0, 1, 2);
    const ScalarProgram program = b.build(b.add(instruction, b.value(0.25)));
    EXPECT_LE(
        difference({{7, 5}, {7, 5}, {7, 5}},
                   [&](const Tensors& in) {
                     return pointwise("test", program, {in.begin(), in.begin() + program.inputs});
                   }),
        tolerance())
        << program.text();
  }
}

TEST_P(CudaOps, EveryBroadcast) {
  const Shape whole{4, 6, 5};
  for (const Shape& shape : {Shape{4, 6, 5}, Shape{5}, Shape{4, 1, 1}, Shape{6, 1}, Shape{6, 5},
                             Shape{4, 6, 1}, Shape{}}) {
    EXPECT_LE(difference({whole, shape}, [](const Tensors& in) { return in[0] * in[1]; }),
              tolerance())
        << shape.text();
  }
}

// More elements than the kernel has threads.
TEST_P(CudaOps, ManyElements) {
  EXPECT_LE(difference({{3'000'001}}, [](const Tensors& in) { return exp(in[0]) + 1.0; }),
            tolerance());
}

TEST_P(CudaOps, CopiesGoThereAndBack) {
  const Device gpu = parse_device("gpu:0");
  Tensor x = random_normal({5, 7}, 3, 0, 1, GetParam());
  Tensor y = copy(copy(copy(x, gpu), gpu), Device{});
  EXPECT_EQ(y.device(), Device{});
  EXPECT_EQ(doubles(y), doubles(x));
}

INSTANTIATE_TEST_SUITE_P(Floats, CudaOps, testing::Values(DType::f32, DType::f64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tessera
