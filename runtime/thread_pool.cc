#include "tessera/runtime/thread_pool.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <sched.h>

#include "tessera/runtime/error.h"

namespace tessera {

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

namespace {

constexpr int kSpins = 4000;    // 40 to 100 microseconds
constexpr int kPatience = 256;  // spins before shares_core() is checked

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int ThreadPool::note_core(int thread) {
  const int core = sched_getcpu();
  if (cores_[thread].load(std::memory_order_relaxed) != core)
    cores_[thread].store(core, std::memory_order_relaxed);
  return core;
}

// Returns true if the waiting `thread` runs on the core on which a thread that it waits for ran
// last. The caller (thread 0) waits for all workers, a worker waits for the caller.
bool ThreadPool::shares_core(int thread) {
  const int core = note_core(thread);
  for (int other = thread == 0 ? 1 : 0; other < (thread == 0 ? size() : 1); ++other)
    if (cores_[other].load(std::memory_order_relaxed) == core) return true;
  return false;
}

template <class Condition>
bool ThreadPool::spin(int thread, Condition&& holds) {
  constexpr int kBetween = 64;
  for (int i = 0; i < spins_; ++i) {
    if (holds()) return true;
    if (i % kBetween == 0 && i >= kPatience && shares_core(thread)) return false;
    relax();
  }
  return false;
}

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = available_cores();
  spins_ = threads <= available_cores() ? kSpins : 0;  // else spinning blocks other threads
  cores_ = std::make_unique<std::atomic<int>[]>(static_cast<size_t>(threads));
  for (int t = 0; t < threads; ++t) cores_[t] = -1;
  workers_.reserve(threads - 1);
  try {
    for (int t = 1; t < threads; ++t)
      workers_.push_back(start_thread("the steps", "lower threads", [this, t] { work(t); }));
  } catch (...) {
    join();
    throw;
  }
}

void ThreadPool::join() {
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
  const std::lock_guard one(callers_);
  note_core(0);
  tasks_ = tasks, body_ = body, fn_ = fn;
  busy_ = static_cast<int>(workers_.size());
  ++round_;
  // A worker first increments sleepers_ and then checks the round, so either it sees this round or
  // its sleep is seen here. The lock waits until the worker really sleeps.
  if (sleepers_ > 0) {
    { std::lock_guard lock(mutex_); }
    start_.notify_all();
  }
  run_share(0);
  const auto done = [this] { return busy_ == 0; };
  if (spin(0, done)) return;
  std::unique_lock lock(mutex_);
  waits_ = true;
  done_.wait(lock, done);
  waits_ = false;
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  const auto called = [&] { return round_ != seen || stop_; };
  for (;;) {
    if (!spin(thread, called)) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      start_.wait(lock, called);
      --sleepers_;
    }
    if (stop_) return;
    seen = round_;
    run_share(thread);
    if (--busy_ == 0 && waits_) {
      { std::lock_guard lock(mutex_); }
      done_.notify_one();
    }
  }
}

std::thread start_thread(const char* purpose, const char* remedy, std::function<void()> run) {
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    throw DeviceError(
        fmt::format("threads: the system cannot start a thread for {} ({}); {}, or raise the limit "
                    "of the user or of the container (ulimit -u)",
                    purpose, error.code().message(), remedy));
  }
}

}  // namespace tessera
