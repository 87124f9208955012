#include "tessera/runtime/machine_peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/simd/peaks_simd.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {
namespace {

constexpr int64_t kRounds = 10000;  // 0.1 ms, within one time slice of a thread

// Returns the rate of a leaf, float(), with `flops` in kRounds.
template <class Leaf>
double leaf_rate(ThreadPool& pool, int64_t threads, int64_t flops, Leaf leaf) {
  std::atomic<float> result{0};
  return best_rate(static_cast<double>(threads * kRounds * flops),
                   [&] { pool.parallel_for(threads, [&](int64_t) { result = leaf(); }); });
}

double multiply_add_rate(ThreadPool& pool, int64_t threads) {
  const PeakMicrokernels& leaf = TESSERA_SELECT_MICROKERNELS(peak_microkernels);
  return leaf_rate(pool, threads, leaf.flops,
                   [&] { return leaf.multiply_add(kRounds, 0.5f, 0.25f); });
}

// Without instructions for pairs these are multiplied one after the other.
double pair_rate(ThreadPool& pool, double otherwise) {
  const PeakMicrokernels& leaf = TESSERA_SELECT_MICROKERNELS(peak_microkernels);
  if (current_isa() != Isa::avx512_bf16) return otherwise;
  return std::max(otherwise, leaf_rate(pool, pool.size(), 2 * leaf.flops,
                                       [&] { return leaf.multiply_add_pairs(kRounds); }));
}

double copy_rate(ThreadPool& pool) {
  constexpr int64_t kCount = int64_t{1} << 24;  // 64 MiB, more than caches hold
  const PeakMicrokernels& leaf = TESSERA_SELECT_MICROKERNELS(peak_microkernels);
  const std::vector<float> from(kCount, 1.0f);
  std::vector<float> to(kCount);
  const int64_t threads = pool.size();
  return best_rate(2.0 * sizeof(float) * kCount, [&] {
    pool.parallel_for(threads, [&](int64_t thread) {
      const int64_t first = kCount * thread / threads, last = kCount * (thread + 1) / threads;
      leaf.copy(from.data() + first, to.data() + first, last - first);
    });
  });
}

}  // namespace

double best_rate(double amount, const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kTime = std::chrono::milliseconds(60);
  const Clock::time_point start = Clock::now();
  double seconds = 1e9;
  do {
    const Clock::time_point begin = Clock::now();
    run();
    seconds = std::min(seconds, seconds_since(begin));
  } while (Clock::now() - start < kTime);
  return amount / seconds / 1e9;
}

std::string MachinePeaks::text() const {
  std::vector<std::string> others;
  if (gflops_of_thread > 0) others.push_back(fmt::format("{:.1f} of one thread", gflops_of_thread));
  if (bf16_gflops > gflops) others.push_back(fmt::format("{:.1f} in bfloat16", bf16_gflops));
  const std::string also = others.empty() ? "" : fmt::format(" ({})", fmt::join(others, "; "));
  return fmt::format("peak {:.1f} GFLOP/s{}, copy {:.1f} GB/s", gflops, also, copy_gbytes);
}

MachinePeaks measure_peaks(ThreadPool& pool) {
  const double of_thread = multiply_add_rate(pool, 1);
  const double of_all = pool.size() == 1 ? of_thread : multiply_add_rate(pool, pool.size());
  const double gflops = std::max(of_all, of_thread);
  return {.gflops_of_thread = of_thread,
          .gflops = gflops,
          .bf16_gflops = pair_rate(pool, gflops),
          .copy_gbytes = copy_rate(pool)};
}

}  // namespace tessera
