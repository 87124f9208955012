// ThreadPool: a fixed set of threads with a static partition: which tasks a thread runs depends on
// the counts alone, so results do not depend on timing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace tessera {

class ThreadPool {
 public:
  // Starts threads - 1 workers; the calling thread counts. 0 means one thread for each core that
  // the process may use. Throws DeviceError if the system cannot start more threads.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool() { join(); }

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(task, thread) for every task in [0, tasks), with thread in [0, size()), an index for
  // per-thread scratch; returns when all are done. Thread t runs a contiguous range. fn must not
  // throw and must not call parallel_for of the same pool. Callers wait for one another. Allocates
  // nothing.
  template <class F>
  void parallel_for_thread(int64_t tasks, F&& fn) {
    using Fn = std::remove_reference_t<F>;
    run(
        tasks, [](void* f, int64_t task, int t) { (*static_cast<Fn*>(f))(task, t); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }
  // Overload with a size hint: all tasks together cost about as much as a simple loop over `work`
  // elements. If that is little, the calling thread runs all tasks as thread 0, which is faster
  // than waking the others.
  template <class F>
  void parallel_for_thread(int64_t tasks, int64_t work, F&& fn) {
    if (work > kLittle) return parallel_for_thread(tasks, fn);
    for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
  }

  // Call fn(task) likewise.
  template <class F>
  void parallel_for(int64_t tasks, F&& fn) {
    parallel_for_thread(tasks, [&](int64_t task, int) { fn(task); });
  }
  template <class F>
  void parallel_for(int64_t tasks, int64_t work, F&& fn) {
    parallel_for_thread(tasks, work, [&](int64_t task, int) { fn(task); });
  }

 private:
  static constexpr int64_t kLittle = 8192;  // some microseconds
  using Body = void (*)(void*, int64_t task, int thread);
  void run(int64_t tasks, Body body, void* fn);
  void work(int thread);
  void join();
  void run_share(int thread) const;
  template <class Condition>
  bool spin(int thread, Condition&& holds);
  int note_core(int thread);
  bool shares_core(int thread);

  std::vector<std::thread> workers_;
  // Threads poll these for 40 to 100 microseconds before they sleep, because the gap between two
  // kernels is shorter than a wake-up. `sleepers_` and `waits_` show whether a thread must be
  // woken.
  std::atomic<uint64_t> round_{0};
  std::atomic<int> busy_{0}, sleepers_{0};
  std::atomic<bool> waits_{false}, stop_{false};
  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::mutex callers_;  // held during a round
  int spins_;           // number of polls
  // The core on which each thread ran last. A thread that waits on the core of another keeps it
  // from working, which happens if other programs use the other cores.
  std::unique_ptr<std::atomic<int>[]> cores_;
  // The work of the round; written before round_ is incremented.
  int64_t tasks_ = 0;
  Body body_ = nullptr;
  void* fn_ = nullptr;
};

// Returns the number of cores that the process may use (affinity counts), at least 1.
int available_cores();

// Starts a thread. Throws DeviceError: "threads: the system cannot start a thread for the loader
// (...); lower data.workers, or raise the limit of the user or of the container (ulimit -u)".
std::thread start_thread(const char* purpose, const char* remedy, std::function<void()> run);

}  // namespace tessera
