// Whether training waits for its data, and for which stage of loading.
//
//   WaitMonitor waits(loader);
//   each step: loader.next() ... step.run(); if (waits.step()) log(..., waits.warning());
//
// Not thread-safe.
#pragma once

#include <string>

#include "tessera/models/data/loader.h"

namespace tessera {

struct WaitLimits {
  int64_t window = 100;  // steps that are looked at together
  double share = 0.1;    // of their time spent waiting that is too much
};

class WaitMonitor {
 public:
  // The loader must outlive it.
  explicit WaitMonitor(const Loader& loader, WaitLimits limits = {});

  // To be called after each step; allocates nothing. True when a window has ended in which too much
  // was waited, the first time only: one warning is enough.
  bool step();
  // The part of the last whole window that next() waited, or of the steps so far; in [0, 1].
  double share() const;
  // "data: 43 % of the last 100 steps was spent waiting ...": names the slowest stage and what may
  // help.
  std::string warning() const;

  struct Stage {
    const char* name;  // "reading", "decoding", "augmentation", "mixing"
    double seconds;    // in the window, summed over the workers
  };
  Stage slowest() const;

 private:
  struct Mark {
    double seconds = 0;  // since some start
    LoaderTimes times;
  };
  Mark now() const;

  const Loader& loader_;
  WaitLimits limits_;
  Mark begin_, end_;  // of the window that share() speaks of
  Mark running_;      // where the window that is not over yet began
  int64_t steps_ = 0, shown_ = 0;
  bool whole_ = false, warned_ = false;
};

}  // namespace tessera
