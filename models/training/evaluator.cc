#include "tessera/models/training/evaluator.h"

#include <span>
#include <utility>
#include <vector>

#include "tessera/models/training/runs_ahead.h"
#include "tessera/models/training/session.h"

namespace tessera {

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
  const std::vector<int64_t> taken_for = step.host_output(3).to_vector<int64_t>();
  const std::vector<float> shares = step.host_output(4).to_vector<float>();
  for (size_t k = 0; k < taken_for.size(); ++k) {
    result.confusion.add(batch.labels[k], taken_for[k]);
    result.calibration.add(shares[k], batch.labels[k] == taken_for[k]);
    if (batch.labels[k] != taken_for[k])
      result.mistakes.add({batch.samples[k], batch.labels[k], taken_for[k], shares[k], ""});
  }
}

}  // namespace

void fill(CompiledStep& step, const Batch& batch) {
  step.bring(0, batch.images);
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

}  // namespace tessera
