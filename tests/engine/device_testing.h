// Compares results of a GPU with the CPU: for tests in files cuda_*. They also run on simulated
// GPUs (TESSERA_CUDA=DOUBLE).
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tensor.h"

namespace tessera {

using DeviceFunction = std::function<Tensors(const Tensors&)>;

// A test that needs a GPU and is skipped if there is none. Products of float32 are exact.
class OnGpu : public testing::Test {
 protected:
  const SettingsScope exact_{{.gpu = {.tf32 = false}}};
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

// Returns x rounded to `dtype` if it is floating point, else x.
inline Tensor in_dtype(const Tensor& x, DType dtype) {
  return is_float(x.dtype()) ? cast(x, dtype) : x;
}

// The alignment of the inputs in memory.
enum class Placed { aligned, off_by_one };

// Returns a copy on the GPU; off_by_one starts one element into its block.
inline Tensor on_gpu(const Tensor& x, Placed placed) {
  const Device gpu{DeviceKind::gpu, 0};
  if (placed == Placed::aligned) return copy(x, gpu);
  const int64_t count = x.elements();
  const size_t size = size_of(x.dtype());
  std::vector<std::byte> bytes((static_cast<size_t>(count) + 1) * size);
  const Tensor host = copy(x);
  if (count > 0)
    std::memcpy(bytes.data() + size, host.impl()->data(), static_cast<size_t>(count) * size);
  const Tensor whole = copy(from_bytes({count + 1}, x.dtype(), bytes.data()), gpu);
  const DeviceScope scope(gpu);
  return reshape(rows(whole, 1, count + 1), x.shape());
}

// Returns the results of f on the GPU, copied to the host.
inline Tensors run_on_gpu(const DeviceFunction& f, const Tensors& inputs, DType dtype,
                          Placed placed = Placed::aligned) {
  Tensors there, results;
  for (const Tensor& x : inputs) there.push_back(on_gpu(in_dtype(x, dtype), placed));
  {
    const DeviceScope scope(Device{DeviceKind::gpu, 0});
    results = f(there);
  }
  for (Tensor& y : results) {
    EXPECT_EQ(y.device().kind, DeviceKind::gpu);
    y = copy(y, Device{});
  }
  return results;
}

inline std::vector<double> as_doubles(const Tensor& x) {
  return cast(x, DType::f64).to_vector<double>();
}

// Returns the largest |gpu - cpu| / max(1e-30, max |cpu|) of the results of f: the GPU computes in
// `dtype`, the CPU in float64 from the same rounded inputs. NaNs must be at the same elements.
inline double gpu_error(const DeviceFunction& f, const Tensors& inputs, DType dtype,
                        Placed placed = Placed::aligned) {
  Tensors rounded;
  for (const Tensor& x : inputs) rounded.push_back(in_dtype(in_dtype(x, dtype), DType::f64));
  const Tensors right = f(rounded), found = run_on_gpu(f, inputs, dtype, placed);
  double worst = 0;
  if (right.size() != found.size()) return std::numeric_limits<double>::infinity();
  for (size_t r = 0; r < right.size(); ++r) {
    if (right[r].shape() != found[r].shape()) return std::numeric_limits<double>::infinity();
    const std::vector<double> a = as_doubles(right[r]), b = as_doubles(found[r]);
    double difference = 0, largest = 1e-30;
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
      if (std::isnan(a[i]) || a[i] == b[i]) continue;
      difference = std::max(difference, std::abs(a[i] - b[i]));
      if (std::isfinite(a[i])) largest = std::max(largest, std::abs(a[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

// Returns true if the GPU gives the bits of the CPU in `dtype`, which is required if only + - * /
// sqrt and choices occur, each in the CPU's order.
inline testing::AssertionResult gpu_has_cpu_bits(const DeviceFunction& f, const Tensors& inputs,
                                                 DType dtype, Placed placed = Placed::aligned) {
  Tensors rounded;
  for (const Tensor& x : inputs) rounded.push_back(in_dtype(x, dtype));
  const Tensors right = f(rounded), found = run_on_gpu(f, inputs, dtype, placed);
  if (right.size() != found.size()) return testing::AssertionFailure() << "other results";
  for (size_t r = 0; r < right.size(); ++r) {
    const Tensor mine = copy(right[r]);
    if (mine.spec() != found[r].spec())
      return testing::AssertionFailure()
             << mine.spec().text() << ", on the GPU " << found[r].spec().text();
    const size_t size = size_of(mine.dtype());
    const auto* a = static_cast<const char*>(mine.impl()->data());
    const auto* b = static_cast<const char*>(found[r].impl()->data());
    for (int64_t i = 0; i < mine.elements(); ++i, a += size, b += size)
      if (std::memcmp(a, b, size) != 0)
        return testing::AssertionFailure()
               << "result " << r << ", element " << i << ": "
               << testing::PrintToString(std::vector<char>(a, a + size)) << ", on the GPU "
               << testing::PrintToString(std::vector<char>(b, b + size));
  }
  return testing::AssertionSuccess();
}

// 16 bits: two roundings of a result, as of an op and of what it follows.
inline double gpu_tolerance(DType dtype) {
  if (is_half(dtype)) return dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  return dtype == DType::f64 ? 1e-13 : 1e-5;
}

// Those that ops compute in, and all that tensors have.
inline constexpr DType kComputedTypes[] = {DType::f32, DType::f64},
                       kGpuTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

// Returns f of all inputs but the last, followed by the gradients of its first result for the first
// `tracked` inputs. The last input is the gradient of that result.
inline DeviceFunction with_gradients(const DeviceFunction& f, size_t tracked) {
  return [=](const Tensors& in) {
    Tensors inputs(in.begin(), in.end() - 1);
    for (size_t i = 0; i < tracked; ++i) inputs[i] = requires_grad(inputs[i]);
    Tensors results = f(inputs);
    for (const Tensor& dx : gradients(results[0], std::span(inputs).first(tracked), in.back()))
      results.push_back(dx);
    return results;
  };
}

// Expects gpu_error() within gpu_tolerance() in these dtypes, with inputs aligned and off by one.
// `cancels`: results may be small next to their terms, whose error they keep.
inline void expect_gpu_matches(const DeviceFunction& f, const Tensors& inputs,
                               std::span<const DType> types = kGpuTypes, bool cancels = false) {
  for (const DType dtype : types) {
    double tolerance = gpu_tolerance(dtype);
    if (cancels && !is_half(dtype)) tolerance = dtype == DType::f64 ? 1e-8 : 1e-4;
    for (const Placed placed : {Placed::aligned, Placed::off_by_one})
      EXPECT_LE(gpu_error(f, inputs, dtype, placed), tolerance)
          << name_of(dtype) << (placed == Placed::aligned ? "" : ", off by one");
  }
}

// Expects gpu_has_cpu_bits() in these dtypes, with inputs aligned and off by one.
inline void expect_gpu_has_cpu_bits(const DeviceFunction& f, const Tensors& inputs,
                                    std::span<const DType> types = kGpuTypes) {
  for (const DType dtype : types)
    for (const Placed placed : {Placed::aligned, Placed::off_by_one})
      EXPECT_TRUE(gpu_has_cpu_bits(f, inputs, dtype, placed))
          << name_of(dtype) << (placed == Placed::aligned ? "" : ", off by one");
}

}  // namespace tessera
