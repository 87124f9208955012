#include "tessera/runtime/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

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

// Rounds follow each other at once, while threads still spin, and after pauses, when they sleep. No
// round may be missed, and its writes must be visible afterwards.
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

// Waking the other thread would take longer than the work.
TEST(ThreadPool, LittleWorkIsTheCallersAlone) {
  ThreadPool pool(2);
  const auto threads_of = [&](int64_t work) {
    std::vector<std::thread::id> by(4), again(4);
    pool.parallel_for(
        4, work, [&](int64_t task) { by[static_cast<size_t>(task)] = std::this_thread::get_id(); });
    pool.parallel_for_thread(4, work, [&](int64_t task, int thread) {
      again[static_cast<size_t>(task)] = std::this_thread::get_id();
      EXPECT_EQ(thread == 0, std::this_thread::get_id() == by[0]);
    });
    EXPECT_EQ(by, again);
    return std::set(by.begin(), by.end());
  };
  EXPECT_EQ(threads_of(4), std::set{std::this_thread::get_id()});
  EXPECT_EQ(threads_of(int64_t{1} << 20).size(), 2u);
}

// Other programs may leave the threads one core, on which none works while another spins.
TEST(ThreadPool, NoRoundIsMissedOnOneCore) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ThreadPool pool(2);  // still assumes all cores
  int64_t sums[2] = {};
  pool.parallel_for(2, [&](int64_t task) { sums[task] = sched_setaffinity(0, sizeof one, &one); });
  ASSERT_EQ(sums[0] + sums[1], 0);
  for (int64_t round = 1; round <= 300; ++round) {
    pool.parallel_for(2, [&](int64_t task) { sums[task] += round; });
    ASSERT_EQ(sums[0], round * (round + 1) / 2);
    ASSERT_EQ(sums[1], sums[0]);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(ThreadPool, CallersWaitForOneAnother) {
  ThreadPool pool(3);
  constexpr int kCallers = 4, kRounds = 200, kTasks = 50;
  std::vector<int> wrong(kCallers, 0);
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c)
    callers.emplace_back([&, c] {
      std::vector<int> seen(kTasks);
      for (int round = 0; round < kRounds; ++round) {
        std::fill(seen.begin(), seen.end(), 0);
        pool.parallel_for(kTasks, [&](int64_t task) { ++seen[static_cast<size_t>(task)]; });
        wrong[static_cast<size_t>(c)] += seen != std::vector<int>(kTasks, 1);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, std::vector<int>(kCallers, 0));
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
