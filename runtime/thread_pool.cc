#include "tessera/runtime/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>

namespace tessera {

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = available_cores();
  workers_.reserve(threads - 1);
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { work(t); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::run_share(int thread) const {
  int64_t count = size(), share = tasks_ / count, extra = tasks_ % count;
  int64_t begin = thread * share + std::min<int64_t>(thread, extra);
  int64_t end = begin + share + (thread < extra ? 1 : 0);
  for (int64_t task = begin; task < end; ++task) body_(fn_, task, thread);
}

void ThreadPool::run(int64_t tasks, Body body, void* fn) {
  if (tasks <= 0) return;
  if (workers_.empty() || tasks == 1) {
    for (int64_t task = 0; task < tasks; ++task) body(fn, task, 0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    tasks_ = tasks, body_ = body, fn_ = fn;
    busy_ = static_cast<int>(workers_.size());
    ++round_;
  }
  start_.notify_all();
  run_share(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    run_share(thread);
    std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace tessera
