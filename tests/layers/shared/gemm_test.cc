// Compares the matrix product with sums in float64, for every transposition and sizes around the
// tiles.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/layers/shared/gemm_cpu.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/tests/engine/same_bits.h"
#include "tessera/tests/layers/shared/random_values.h"

namespace tessera {
namespace {

// The algorithms; native only if this build and processor have it.
enum class Algorithm { native, eigen };

template <class T>
size_t scratch_of(Algorithm algorithm, const GemmShape& s, int threads) {
  if constexpr (kNativeKernels)
    if (algorithm == Algorithm::native) return gemm_scratch(s, dtype_of<T>, threads);
  return eigen_gemm_scratch(s, dtype_of<T>, threads);
}

template <class T>
void multiply(Algorithm algorithm, ThreadPool& pool, const GemmShape& s, const T* a, const T* b,
              Computed<T>* c, void* scratch) {
  if constexpr (kNativeKernels)
    if (algorithm == Algorithm::native) return gemm(pool, s, a, b, c, scratch);
  if constexpr (!is_half(dtype_of<T>)) eigen_gemm(pool, s, a, b, c, scratch);
}

template <class T>
std::vector<Computed<T>> run(Algorithm algorithm, const GemmShape& s, int threads) {
  const auto a = values<T>(s.m * s.k, 1), b = values<T>(s.k * s.n, 2);
  using C = Computed<T>;
  auto c = s.accumulate ? values<C>(s.m * s.n, 3) : std::vector<C>(s.m * s.n, C(NAN));
  ThreadPool pool(threads);
  const size_t bytes = scratch_of<T>(algorithm, s, threads);
  std::unique_ptr<unsigned char, decltype(&std::free)> scratch(
      static_cast<unsigned char*>(std::aligned_alloc(64, bytes / 64 * 64 + 128)), &std::free);
  std::memset(scratch.get(), 0xff, bytes + 64);
  multiply(algorithm, pool, s, a.data(), b.data(), c.data(), scratch.get());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(scratch.get()[bytes + i], 0xff);
  return c;
}

template <class T>
void compare(Algorithm algorithm, const GemmShape& s, double tolerance) {
  const auto a = values<T>(s.m * s.k, 1), b = values<T>(s.k * s.n, 2);
  const auto c = values<Computed<T>>(s.m * s.n, 3);
  const auto got = run<T>(algorithm, s, 2);
  double difference = 0, largest = 1e-30;
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      double want = s.accumulate ? c[i * s.n + j] : 0;
      for (int64_t l = 0; l < s.k; ++l)
        want += double(s.transpose_a ? a[l * s.m + i] : a[i * s.k + l]) *
                double(s.transpose_b ? b[j * s.k + l] : b[l * s.n + j]);
      ASSERT_FALSE(std::isnan(got[i * s.n + j]));
      difference = std::max(difference, std::abs(want - got[i * s.n + j]));
      largest = std::max(largest, std::abs(want));
    }
  EXPECT_LE(difference / largest, tolerance)
      << s.m << "x" << s.n << "x" << s.k << " " << s.transpose_a << s.transpose_b << s.accumulate;
}

const int64_t kSizes[][3] = {{1, 1, 1},    {1, 10, 84},   {1, 120, 400},   {3, 17, 5},
                             {6, 16, 320}, {7, 33, 321},  {8, 64, 31},     {9, 15, 700},
                             {24, 8, 16},  {64, 10, 84},  {50, 131, 67},   {100, 300, 9},
                             {97, 16, 1},  {200, 5, 650}, {130, 260, 330}, {12, 3000, 40},
                             {1, 1000, 3}, {5, 2, 0},     {20, 20, 0},     {120, 413, 1}};

class Gemm : public testing::TestWithParam<Algorithm> {
 protected:
  void SetUp() override {
    if (GetParam() == Algorithm::native && !has_native_kernels())
      GTEST_SKIP() << "no native kernels for " << isa_name(current_isa());
  }
};

TEST_P(Gemm, AgreesWithTheDefinition) {
  for (const auto& [m, n, k] : kSizes)
    for (int flags = 0; flags < 8; ++flags) {
      const GemmShape s{m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
      compare<float>(GetParam(), s, 3e-6);
      compare<double>(GetParam(), s, 1e-14);
    }
}

// Products are exact, so only the sums are rounded, to float32.
TEST_P(Gemm, PairsAgreeWithTheDefinition) {
  if (GetParam() == Algorithm::eigen) GTEST_SKIP() << "Eigen multiplies copies in float32";
  for (const auto& [m, n, k] : kSizes)
    for (int flags = 0; flags < 8; ++flags)
      compare<bfloat16>(GetParam(), {m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0},
                        3e-6);
  compare<bfloat16>(GetParam(), {40, 7000, 1350, false, true, false}, 3e-6);
  compare<bfloat16>(GetParam(), {30, 7000, 1301, true, false, true}, 3e-6);
}

TEST_P(Gemm, SpansSeveralBlocks) {
  compare<float>(GetParam(), {40, 7000, 350, false, true, false}, 3e-6);
  compare<double>(GetParam(), {30, 7000, 170, true, false, true}, 1e-14);
}

TEST_P(Gemm, SameBitsForAnyNumberOfThreads) {
  for (const auto& [m, n, k] : kSizes)
    for (int flags = 0; flags < 8; ++flags) {
      const GemmShape s{m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
      const auto one = run<float>(GetParam(), s, 1);
      for (int threads : {2, 3}) EXPECT_EQ(run<float>(GetParam(), s, threads), one);
      if (GetParam() == Algorithm::eigen) continue;
      EXPECT_EQ(run<bfloat16>(GetParam(), s, 3), run<bfloat16>(GetParam(), s, 1));
    }
}

class GemmInstructionSets : public SameBits {};

TEST_F(GemmInstructionSets, GiveTheSameBits) {
  for (const auto& [m, n, k] : kSizes)
    for (int flags = 0; flags < 8; ++flags) {
      const GemmShape s{m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
      const std::string what = fmt::format("{} x {} x {}, flags {}", m, n, k, flags);
      record(what, run<float>(Algorithm::native, s, 2));
      record(what + ", double", run<double>(Algorithm::native, s, 2));
      record(what + ", bfloat16", run<bfloat16>(Algorithm::native, s, 2));
    }
}

INSTANTIATE_TEST_SUITE_P(, Gemm, testing::Values(Algorithm::native, Algorithm::eigen),
                         [](const auto& info) {
                           return info.param == Algorithm::native ? "native" : "eigen";
                         });

}  // namespace
}  // namespace tessera
