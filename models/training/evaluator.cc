#include "tessera/models/training/evaluator.h"

#include <span>
#include <utility>
#include <vector>

#include "tessera/graph/compile.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/training/runs_ahead.h"
#include "tessera/models/training/session.h"

namespace tessera {

void RunningMetrics::add(CompiledStep& step, int64_t count) {
  loss += step.host_output(0).item<double>() * static_cast<double>(count);
  correct += step.host_output(1).item<double>();
  images += count;
}

void RunningMetrics::resume(double loss_sum, double correct_sum, int64_t image_count) {
  loss = loss_sum;
  correct = correct_sum;
  images = before = image_count;
}

double RunningMetrics::rate() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<double>(images - before) / seconds;
}

namespace {

struct Evaluated {
  CompiledStep* step;
  Batch batch;
};

void add(Evaluation& result, const Evaluated& run) {
  CompiledStep& step = *run.step;
  const Batch& batch = run.batch;
  result.add(step, batch.count);
  result.correct5 += step.host_output(2).item<double>();
  const std::vector<int64_t> predicted = step.host_output(3).to_vector<int64_t>();
  const std::vector<float> shares = step.host_output(4).to_vector<float>();
  for (size_t k = 0; k < predicted.size(); ++k) {
    result.confusion.add(batch.labels[k], predicted[k]);
    result.calibration.add(shares[k], batch.labels[k] == predicted[k]);
    if (batch.labels[k] != predicted[k])
      result.mistakes.add({batch.samples[k], batch.labels[k], predicted[k], shares[k], ""});
  }
}

}  // namespace

void fill(CompiledStep& step, const Batch& batch) {
  step.stage_input(0, batch.images);
  Tensor(step.host_input(1)).assign(std::span(batch.labels, static_cast<size_t>(batch.count)));
}

Evaluator::Evaluator(Session& session, std::shared_ptr<const Dataset> data,
                     const LoaderOptions& options, int64_t classes)
    : session_(session),
      loader_(std::move(data), options, session.staging_memory()),
      classes_(classes) {}

std::optional<Evaluation> Evaluator::run(const std::atomic<int>* stop) {
  Evaluation result;
  result.confusion = ConfusionMatrix(classes_);
  RunsAhead<Evaluated> runs([&](const Evaluated& run) { add(result, run); });
  loader_.start_epoch(0);
  const auto stopped = [&] { return stop != nullptr && *stop != 0; };
  int64_t done = 0;
  for (; done < loader_.batches() && !stopped(); ++done) {
    const Batch& batch = loader_.next();
    CompiledStep& step = session_.evaluation_step(batch.count);
    fill(step, batch);
    runs.submit({&step, batch});
  }
  runs.drain();
  if (done < loader_.batches()) return {};
  return result;
}

void add_evaluation(RunReport& report, const Evaluation& evaluation, const Dataset& images) {
  report.confusion = evaluation.confusion;
  report.calibration = evaluation.calibration;
  report.classes = images.class_names();
  report.top1 = evaluation.accuracy();
  if (evaluation.confusion.classes > 5) report.top5 = evaluation.top5();
  report.mistakes = evaluation.mistakes.all();
  std::vector<uint8_t> image(static_cast<size_t>(images.shape().bytes()));
  for (Misclassification& mistake : report.mistakes) {
    images.read(mistake.sample, image.data());
    mistake.picture = thumbnail_uri(image.data(), images.shape());
  }
}

}  // namespace tessera
