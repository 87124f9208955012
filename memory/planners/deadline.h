// When to stop, if there is a limit in seconds, and how long something took. Private to
// memory/planners.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace tessera::planning {

class Deadline {
 public:
  Deadline() = default;  // never
  explicit Deadline(double seconds) {
    if (seconds <= 0) return;
    seconds *= 0.95;  // what is under way then has to end as well
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(std::min(seconds, 1e6)));
  }

  bool passed() const { return end_ && Clock::now() >= *end_; }
  // Whether something that takes so many seconds would end before.
  bool leaves(double seconds) const {
    return !end_ || Clock::now() + std::chrono::duration<double>(seconds) < *end_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> end_;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tessera::planning
