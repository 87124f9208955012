// The run over the test images, or those of validation, and what it comes to.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/models/data/loader.h"
#include "tessera/models/run/metrics.h"

namespace tessera {

class CompiledStep;  // graph/compile.h
class Session;       // session.h
struct RunReport;    // models/run/run_report.h

// Sums over the images of some steps.
struct RunningMetrics {
  using Clock = std::chrono::steady_clock;
  double loss = 0, correct = 0;
  int64_t images = 0;
  int64_t before = 0;  // of these, seen by an earlier process
  Clock::time_point start = Clock::now();

  // Adds what was collected of a step for `count` images.
  void add(CompiledStep& step, int64_t count);
  // Goes on from the sums of another process.
  void resume(double loss_sum, double correct_sum, int64_t image_count);
  // NaN of no images.
  double mean_loss() const { return mean_of(loss, images); }
  double accuracy() const { return mean_of(correct, images); }
  double rate() const;  // images a second
};

struct Evaluation : RunningMetrics {
  double correct5 = 0;  // right among the first five, or among all where there are fewer classes
  ConfusionMatrix confusion;
  Calibration calibration;
  TopErrors mistakes;
  double top5() const { return mean_of(correct5, images); }
};

// Images and labels of a batch into the arguments of a step that is to be submitted. The batch must
// stay valid until that is collected.
void fill(CompiledStep& step, const Batch& batch);

class Evaluator {
 public:
  // The session has its evaluation steps prepared (run.h).
  Evaluator(Session& session, std::shared_ptr<const Dataset> data, const LoaderOptions& options,
            int64_t classes);

  // Nothing when `stop` asked to end before all images were seen.
  std::optional<Evaluation> run(const std::atomic<int>* stop = nullptr);
  const Loader& loader() const { return loader_; }

 private:
  Session& session_;
  Loader loader_;
  int64_t classes_;
};

// All that the report says of the images that were evaluated, with pictures of the worst mistakes.
void add_evaluation(RunReport& report, const Evaluation& evaluation, const Dataset& images);

}  // namespace tessera
