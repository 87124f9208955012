// Helpers for the tests of ops.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/gradient_check.h"
#include "tessera/engine/tensor.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "no ShapeError";
}

// Returns the message of any Error that `call` throws.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A suite whose tests run with the native kernels and with Eigen's.
class UnderEachKernels : public testing::TestWithParam<CpuKernels> {
 protected:
  void SetUp() override {
    if (GetParam() == CpuKernels::native && !has_native_kernels())
      GTEST_SKIP() << "no native kernels for " << isa_name(current_isa());
    kernels_.emplace(Settings{.cpu = {.kernels = GetParam()}});
  }
  void TearDown() override { kernels_.reset(); }

 private:
  std::optional<SettingsScope> kernels_;
};
#define TESSERA_UNDER_EACH_KERNELS(Suite)                              \
  class Suite : public UnderEachKernels {};                            \
  INSTANTIATE_TEST_SUITE_P(                                            \
      , Suite, testing::Values(CpuKernels::native, CpuKernels::eigen), \
      [](const auto& info) { return info.param == CpuKernels::native ? "native" : "eigen"; })

inline Tensor normal(const Shape& shape, uint64_t key, DType dtype = DType::f64) {
  return random_normal(shape, key, 0, 1, dtype);
}

// Returns 1, 2, 3, ...
inline Tensor counted(const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(static_cast<double>(i + 1));
  return from_vector(shape, values);
}

// Returns different values, at least 0.1 apart, in a scattered order: for maxima, whose gradient
// jumps if two values are equal.
inline Tensor spread(const Shape& shape) {
  const int64_t count = shape.elements();
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(0.1 * static_cast<double>(i * 7919 % count) - 2 +
                     1e-3 * static_cast<double>(i % 7));
  return from_vector(shape, values);
}

inline void expect_near(const Tensor& tensor, const std::vector<double>& expected,
                        double tolerance = 1e-12) {
  const auto values = tensor.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], tolerance) << "at " << i;
}

inline void expect_gradients(const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs,
                             double tolerance = 1e-6) {
  const auto result = check_gradients(f, inputs, {.step = 1e-5, .tolerance = tolerance, .key = 1});
  EXPECT_TRUE(result.passed) << result.report;
}

}  // namespace tessera
