#include "tessera/runtime/thread_pool.h"

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ThreadPool, EveryTaskRunsOnceOnTheThreadThatTheCountsName) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    for (int64_t tasks : {0, 1, 2, 3, 7, 100}) {
      std::vector<int> runs(static_cast<size_t>(tasks)), thread_of(runs.size());
      pool.parallel_for_thread(tasks, [&](int64_t task, int thread) {
        ++runs[static_cast<size_t>(task)];
        thread_of[static_cast<size_t>(task)] = thread;
      });
      EXPECT_EQ(runs, std::vector<int>(runs.size(), 1)) << tasks << " on " << threads;
      for (size_t i = 1; i < thread_of.size(); ++i) EXPECT_LE(thread_of[i - 1], thread_of[i]);
      if (tasks >= threads) {
        EXPECT_EQ(thread_of.back(), threads - 1);
      }
    }
  }
}

// Rounds follow each other at once, so that threads are still looking, and after pauses, so that
// they sleep: none may be missed, and what was written is seen after the round.
TEST(ThreadPool, NoRoundIsMissedWhetherThreadsLookOrSleep) {
  for (int threads : {2, 4}) {
    ThreadPool pool(threads);
    std::vector<int64_t> sums(static_cast<size_t>(threads) * 16);
    for (int64_t round = 1; round <= 3000; ++round) {
      pool.parallel_for_thread(threads, [&](int64_t task, int thread) {
        sums[static_cast<size_t>(thread) * 16] += task == thread ? round : 1;
      });
      if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round));
      for (int t = 0; t < threads; ++t)
        ASSERT_EQ(sums[static_cast<size_t>(t) * 16], round * (round + 1) / 2) << "thread " << t;
    }
  }
}

TEST(ThreadPool, StopsWhileItsThreadsLookOrSleep) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    if (i % 2) pool.parallel_for(3, [](int64_t) {});
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace
}  // namespace tessera
