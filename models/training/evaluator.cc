#include "tessera/models/training/evaluator.h"

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/models/config/config_data.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/runs_ahead.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/exchange/exchange.h"

namespace tessera {

void RunningMetrics::add(CompiledStep& step, int64_t count) {
  add(step.host_output(0).item<double>(), step.host_output(1).item<double>(), count);
}

namespace {

struct Evaluated {
  CompiledStep* step;
  Batch batch;
};

// The results of a batch, as processes send them.
struct BatchRecord {
  struct Sums {
    double loss, correct, correct5;
    size_t images;
  };
  struct Image {
    int64_t sample;
    int32_t label, predicted;
    float share;
  };
  Sums sums;
  std::vector<Image> images;
};

BatchRecord record_of(const Evaluated& run) {
  CompiledStep& step = *run.step;
  const Batch& batch = run.batch;
  const std::vector<int64_t> predicted = step.host_output(3).to_vector<int64_t>();
  const std::vector<float> shares = step.host_output(4).to_vector<float>();
  BatchRecord all{{step.host_output(0).item<double>(), step.host_output(1).item<double>(),
                   step.host_output(2).item<double>(), predicted.size()},
                  {}};
  for (size_t k = 0; k < predicted.size(); ++k)
    all.images.push_back(
        {batch.samples[k], batch.labels[k], static_cast<int32_t>(predicted[k]), shares[k]});
  return all;
}

void add(Evaluation& result, const BatchRecord& batch) {
  result.add(batch.sums.loss, batch.sums.correct, std::ssize(batch.images));
  result.correct5 += batch.sums.correct5;
  for (const BatchRecord::Image& image : batch.images) {
    const bool right = image.label == image.predicted;
    result.confusion.add(image.label, image.predicted);
    result.calibration.add(image.share, right);
    if (!right) result.mistakes.add({image.sample, image.label, image.predicted, image.share, ""});
  }
}

void put(std::string& text, const BatchRecord& batch) {
  const auto bytes = std::as_bytes(std::span(batch.images));
  text.append(reinterpret_cast<const char*>(&batch.sums), sizeof batch.sums);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

BatchRecord take(std::string_view& text) {
  BatchRecord batch;
  std::memcpy(&batch.sums, text.data(), sizeof batch.sums);
  text.remove_prefix(sizeof batch.sums);
  batch.images.resize(batch.sums.images);
  const auto bytes = std::as_writable_bytes(std::span(batch.images));
  std::memcpy(bytes.data(), text.data(), bytes.size());
  text.remove_prefix(bytes.size());
  return batch;
}

}  // namespace

void fill(CompiledStep& step, const Batch& batch) {
  step.stage_input(0, batch.images);
  Tensor(step.host_input(1)).assign(std::span(batch.all_labels, static_cast<size_t>(batch.all)));
}

Evaluator::Evaluator(const Run& run, std::shared_ptr<const Dataset> data)
    : session_(run.session()),
      loader_(std::move(data), loader_options(run.config(), false, session_.device()),
              session_.staging_memory()),
      classes_(run.config().model.classes),
      exchange_(run.exchange()) {}

std::optional<Evaluation> Evaluator::run(const std::atomic<int>* stop) {
  Evaluation result;
  result.confusion = ConfusionMatrix(classes_);
  std::string own;  // results for other processes
  RunsAhead<Evaluated> runs([&](const Evaluated& run) {
    const BatchRecord batch = record_of(run);
    exchange_ ? put(own, batch) : add(result, batch);
  });
  PartRange mine{0, loader_.batches()};
  if (exchange_) mine = parts_of_rank(mine.last, exchange_->rank(), exchange_->size());
  if (mine.count() > 0) loader_.start_epoch(0, mine.first);
  const auto stopped = [&] { return !exchange_ && stop != nullptr && *stop != 0; };
  int64_t done = mine.first;
  for (; done < mine.last && !stopped(); ++done) {
    const Batch& batch = loader_.next();
    CompiledStep& step = session_.evaluation_step(batch.count);
    fill(step, batch);
    runs.submit({&step, batch});
  }
  runs.drain();
  if (done < mine.last) return {};
  if (exchange_)
    for (const std::string& text : exchange_->gather(own))
      for (std::string_view rest = text; !rest.empty();) add(result, take(rest));
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
