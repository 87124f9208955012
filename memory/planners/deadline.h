// Deadline, a time limit in seconds, and Stopwatch. Private to memory/planners.
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
    seconds *= 0.95;  // the rest is for work in progress at the end
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(std::min(seconds, 1e6)));
  }

  bool passed() const { return end_ && Clock::now() >= *end_; }
  // Returns whether work that takes `seconds` would end before the deadline.
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
