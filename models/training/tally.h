// What a run over images comes to.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tessera/models/run/calibration.h"
#include "tessera/models/run/confusion_matrix.h"
#include "tessera/models/run/mistakes.h"

namespace tessera {

class CompiledStep;  // graph/compile.h

// Sums over the images of some steps.
struct Tally {
  using Clock = std::chrono::steady_clock;
  double loss = 0, correct = 0;
  int64_t images = 0;
  int64_t before = 0;  // of these, seen by an earlier process
  Clock::time_point start = Clock::now();

  // What was collected of a step for `count` images.
  void add(CompiledStep& step, int64_t count);
  // Goes on from the sums of another process.
  void resume(double loss_sum, double correct_sum, int64_t image_count);
  // NaN of no images.
  double mean_loss() const { return mean(loss); }
  double accuracy() const { return mean(correct); }
  double rate() const;  // images a second

 protected:
  // Never the NaN with a sign, which prints as -nan.
  double mean(double sum) const {
    const double value = sum / static_cast<double>(images);
    return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
  }
};

struct Evaluation : Tally {
  double correct5 = 0;  // right among the first five, or among all where there are fewer classes
  ConfusionMatrix confusion;
  Calibration calibration;
  WorstMistakes mistakes;
  double top5() const { return mean(correct5); }
};

}  // namespace tessera
