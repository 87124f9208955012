#include "tessera/runtime/machine_peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "tessera/runtime/simd/peaks_simd.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the best rate of several runs: disturbances only make a run slower.
template <class F>
double best_rate(double of_run, F&& work) {
  constexpr auto kTime = std::chrono::milliseconds(60);
  const Clock::time_point start = Clock::now();
  double seconds = 1e9;
  do {
    const Clock::time_point begin = Clock::now();
    work();
    seconds = std::min(seconds, std::chrono::duration<double>(Clock::now() - begin).count());
  } while (Clock::now() - start < kTime);
  return of_run / seconds / 1e9;
}

double multiply_add_rate(ThreadPool& pool, int64_t threads) {
  constexpr int64_t kRounds = 10000;  // 0.1 ms, within one time slice of a thread
  const PeakMicrokernels& leaf = TESSERA_SELECT_MICROKERNELS(peak_microkernels);
  std::atomic<float> result{0};
  const auto flops = static_cast<double>(threads * kRounds * leaf.flops);
  return best_rate(flops, [&] {
    pool.parallel_for(threads, [&](int64_t) { result = leaf.multiply_add(kRounds, 0.5f, 0.25f); });
  });
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

MachinePeaks measure_peaks(ThreadPool& pool) {
  const double of_thread = multiply_add_rate(pool, 1);
  const double of_all = pool.size() == 1 ? of_thread : multiply_add_rate(pool, pool.size());
  return {.gflops_of_thread = of_thread,
          .gflops = std::max(of_all, of_thread),
          .copy_gbytes = copy_rate(pool)};
}

}  // namespace tessera
