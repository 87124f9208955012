// Evaluator: runs the evaluation steps over the test or validation images.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/models/data/loader.h"
#include "tessera/models/run/metrics.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

class CompiledStep;  // graph/compile.h
class Exchange;      // runtime/exchange/exchange.h
class Run;           // run.h
class Session;       // session.h
struct RunReport;    // models/run/run_report.h

// Running metrics: sums over the images of some steps.
struct RunningMetrics {
  using Clock = std::chrono::steady_clock;
  double loss = 0, correct = 0;
  int64_t images = 0;
  int64_t before = 0;  // counted in `images`, but seen by an earlier process
  Clock::time_point start = Clock::now();

  // Adds the results of a collected step for `count` images.
  void add(CompiledStep& step, int64_t count);
  void add(double mean_loss, double correct_count, int64_t count) {
    loss += mean_loss * static_cast<double>(count);
    correct += correct_count;
    images += count;
  }
  // Continues from the sums of another process.
  void resume(double loss_sum, double correct_sum, int64_t image_count) {
    loss = loss_sum;
    correct = correct_sum;
    images = before = image_count;
  }
  // Return NaN without images; rate() images per second.
  double mean_loss() const { return mean_of(loss, images); }
  double accuracy() const { return mean_of(correct, images); }
  double rate() const { return static_cast<double>(images - before) / seconds_since(start); }
};

struct Evaluation : RunningMetrics {
  double correct5 = 0;  // correct top-5 predictions; all if there are fewer than five classes
  ConfusionMatrix confusion;
  Calibration calibration;
  TopErrors mistakes;
  double top5() const { return mean_of(correct5, images); }
};

// Writes images and labels of a batch into the arguments of the step that is submitted next. The
// batch must stay valid until that step is collected.
void fill(CompiledStep& step, const Batch& batch);

class Evaluator {
 public:
  // Uses the session of the run. With an exchange each process evaluates some of the batches.
  Evaluator(const Run& run, std::shared_ptr<const Dataset> data);

  // Returns the results of all batches, added in their order, in every process. Returns nullopt if
  // `stop` became nonzero before all images were seen; several processes do not read it.
  std::optional<Evaluation> run(const std::atomic<int>* stop = nullptr);
  const Loader& loader() const { return loader_; }

 private:
  Session& session_;
  Loader loader_;
  int64_t classes_;
  std::shared_ptr<Exchange> exchange_;
};

// Adds the results of an evaluation to a report, with thumbnails of the worst mistakes.
void add_evaluation(RunReport& report, const Evaluation& evaluation, const Dataset& images);

}  // namespace tessera
