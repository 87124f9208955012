#include "tessera/models/training/evaluator.h"

#include <span>
#include <utility>
#include <vector>

#include "tessera/models/training/session.h"

namespace tessera {

void fill(CompiledStep& step, const Batch& batch, const ImageShape& shape) {
  Tensor images = step.input(0), labels = step.input(1);
  images.assign(std::span(batch.images, static_cast<size_t>(batch.count * shape.bytes())));
  labels.assign(std::span(batch.labels, static_cast<size_t>(batch.count)));
}

Evaluator::Evaluator(Session& session, std::shared_ptr<const Dataset> data,
                     const LoaderOptions& options, int64_t classes)
    : session_(session), loader_(std::move(data), options), classes_(classes) {}

std::optional<Evaluation> Evaluator::run(const std::atomic<int>* stop) {
  Evaluation result;
  result.confusion = ConfusionMatrix(classes_);
  loader_.start_epoch(0);
  for (int64_t i = 0; i < loader_.batches(); ++i) {
    if (stop != nullptr && *stop != 0) return {};
    const Batch& batch = loader_.next();
    CompiledStep& step = session_.evaluation_step(batch.count);
    fill(step, batch, loader_.shape());
    step.run();
    result.add(step, batch.count);
    result.correct5 += step.output(2).item<double>();
    const std::vector<int64_t> taken_for = step.output(3).to_vector<int64_t>();
    const std::vector<float> shares = step.output(4).to_vector<float>();
    for (size_t k = 0; k < taken_for.size(); ++k) {
      result.confusion.add(batch.labels[k], taken_for[k]);
      if (batch.labels[k] != taken_for[k])
        result.mistakes.add({batch.samples[k], batch.labels[k], taken_for[k], shares[k], ""});
    }
  }
  return result;
}

}  // namespace tessera
