#include "tessera/runtime/machine_peaks.h"

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/runtime/simd/peaks_simd.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {
namespace {

// Every sum is 0.5; twelve of them, halved one after the other, give 1 - 2^-12 in each lane.
TEST(MachinePeaks, TheLeafDoesAllTheArithmeticThatItCounts) {
  const PeakMicrokernels& leaf = TESSERA_SELECT_MICROKERNELS(peak_microkernels);
  const float lanes = leaf.multiply_add(100, 0.5f, 0.25f) / (1 - 1.0f / 4096);
  EXPECT_EQ(static_cast<float>(leaf.flops), 2 * 12 * lanes);
  EXPECT_GE(lanes, 4);
  EXPECT_NE(leaf.multiply_add(1, 0.5f, 0.25f), leaf.multiply_add(2, 0.5f, 0.25f));
}

#if defined(__x86_64__)
TEST(MachinePeaks, TheLeafOfPairsDoesTwiceAsMuch) {
  const PeakMicrokernels& leaf = TESSERA_SELECT_MICROKERNELS(peak_microkernels);
  if (!leaf.multiply_add_pairs || !__builtin_cpu_supports("avx512bf16"))
    GTEST_SKIP() << "no products of bfloat16";
  EXPECT_EQ(leaf.multiply_add_pairs(100), 0.5f * 100 * static_cast<float>(leaf.flops) / 2);
}

TEST(MachinePeaks, IntelsProcessorsMultiplyPairsWithFmas) {
  if (std::getenv("TESSERA_MAX_ISA") || !__builtin_cpu_is("intel"))
    GTEST_SKIP() << "another processor, or its instructions are limited";
  EXPECT_LE(current_isa(), Isa::avx512);
}
#endif

TEST(MachinePeaks, TheLeafCopiesAll) {
  for (const int64_t count : {0, 1, 15, 16, 17, 1000}) {
    std::vector<float> from(static_cast<size_t>(count)), to(from.size() + 1, -1.0f);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
    (TESSERA_SELECT_MICROKERNELS(peak_microkernels)).copy(from.data(), to.data(), count);
    EXPECT_EQ(to.back(), -1);
    to.pop_back();
    EXPECT_EQ(to, from);
  }
}

TEST(MachinePeaks, AllThreadsAreNoSlowerThanOne) {
  ThreadPool pool(2);
  const MachinePeaks peaks = measure_peaks(pool);
  EXPECT_GT(peaks.gflops_of_thread, 0);
  EXPECT_GE(peaks.gflops, peaks.gflops_of_thread);
  EXPECT_GE(peaks.bf16_gflops, peaks.gflops);
  EXPECT_GT(peaks.copy_gbytes, 0);
}

}  // namespace
}  // namespace tessera
