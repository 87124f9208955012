#include "tessera/models/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "tessera/graph/program.h"
#include "tessera/models/metrics.h"
#include "tessera/models/schedule.h"
#include "tessera/models/session.h"
#include "tessera/models/step_probe.h"
#include "tessera/runtime/data/loader.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Normalization normalization_of(const Config& config, const Dataset& data) {
  Normalization normalization = data.normalization();
  if (!config.data.mean.empty())
    normalization.mean.assign(config.data.mean.begin(), config.data.mean.end());
  if (!config.data.std.empty())
    normalization.std.assign(config.data.std.begin(), config.data.std.end());
  return normalization;
}

void check_classes(const Config& config, const Dataset& data) {
  if (config.model.classes < data.classes())
    throw ConfigError(fmt::format("model.classes: {} has {} classes, the model only {}",
                                  data.name(), data.classes(), config.model.classes));
}

LoaderOptions evaluation_options(const Config& config) {
  LoaderOptions options;
  options.batch = config.data.batch;
  options.workers = config.data.workers;
  options.read_ahead = config.data.read_ahead;
  return options;
}

LoaderOptions training_options(const Config& config) {
  LoaderOptions options = evaluation_options(config);
  options.shuffle = true;
  options.seed = config.seed;
  options.augment = make_augment(config.data);
  return options;
}

// Sums over the images of some steps.
struct Tally {
  double loss = 0, correct = 0;
  int64_t images = 0;
  Clock::time_point start = Clock::now();

  void add(PreparedStep& step, int64_t count) {
    loss += step.output(0).item<double>() * static_cast<double>(count);
    correct += step.output(1).item<double>();
    images += count;
  }
  double mean_loss() const { return images ? loss / static_cast<double>(images) : 0; }
  double accuracy() const { return images ? correct / static_cast<double>(images) : 0; }
  double rate() const { return static_cast<double>(images) / seconds_since(start); }
};

void fill(PreparedStep& step, const Batch& batch, const ImageShape& shape) {
  Tensor images = step.input(0), labels = step.input(1);
  images.assign(std::span(batch.images, static_cast<size_t>(batch.count * shape.bytes())));
  labels.assign(std::span(batch.labels, static_cast<size_t>(batch.count)));
}

// The sizes of full and last batch.
int64_t last_batch(const Loader& loader) {
  int64_t full = loader.options().batch, rest = loader.samples() % full;
  return rest == 0 ? full : rest;
}

class Evaluator {
 public:
  Evaluator(Session& session, std::shared_ptr<const Dataset> data, const LoaderOptions& options)
      : session_(session), loader_(std::move(data), options) {
    session.evaluation_step(std::min(options.batch, loader_.samples()));
    session.evaluation_step(last_batch(loader_));
  }

  Tally run() {
    Tally tally;
    loader_.start_epoch(0);
    for (int64_t i = 0; i < loader_.batches(); ++i) {
      const Batch& batch = loader_.next();
      PreparedStep& step = session_.evaluation_step(batch.count);
      fill(step, batch, loader_.shape());
      step.run();
      tally.add(step, batch.count);
    }
    return tally;
  }

  const Loader& loader() const { return loader_; }

 private:
  Session& session_;
  Loader loader_;
};

class Training {
 public:
  Training(const Config& config, const Print& print)
      : config_(config),
        print_(print),
        data_(open_data(data_source(config))),
        loader_(data_.train, training_options(config)),
        session_(config, loader_.shape(), normalization_of(config, *data_.train)),
        evaluator_(session_, data_.test, evaluation_options(config)),
        total_steps_(config.train.total_steps(loader_.batches())),
        schedule_(config.schedule, config.optimizer.lr, loader_.batches(), total_steps_),
        folder_(config) {
    check_classes(config, *data_.train);
    session_.train_step(std::min(config.data.batch, loader_.samples()));
    session_.train_step(last_batch(loader_));
    session_.bind();
    folder_.write_memory(blocks());
    introduce();
  }

  TrainResult run() {
    Clock::time_point start = Clock::now();
    int64_t evaluate_every = config_.train.evaluate_every.steps(loader_.batches());
    int64_t log_every = config_.train.log_every.steps(loader_.batches());
    Tally since_log;
    for (int64_t step = 0; step < total_steps_; ++step) {
      const Batch& batch = next_step(step, since_log);
      bool end = step + 1 == total_steps_;
      bool log = end || batch.last || (log_every > 0 && (step + 1) % log_every == 0);
      if (log) {
        report("train", step, since_log);
        since_log = Tally();
      }
      if (end || (evaluate_every > 0 && (step + 1) % evaluate_every == 0)) {
        tested_ = evaluator_.run();
        report("test", step, *tested_);
        say_epoch(step, seconds_since(start));
        since_log.start = Clock::now();
      }
    }
    session_.save_weights(folder_.weights_path());
    return {tested_ ? tested_->accuracy() : 0, tested_ ? tested_->mean_loss() : 0, total_steps_,
            epochs(total_steps_), seconds_since(start)};
  }

 private:
  double epochs(int64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(loader_.batches());
  }

  // Everything of some size that training asks of the machine, each in one request.
  std::vector<HostBuffer> blocks() const {
    std::vector<HostBuffer> all = session_.regions();
    for (const auto& more : {loader_.host_buffers(), evaluator_.loader().host_buffers(),
                             data_.train->host_buffers(), data_.test->host_buffers()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void introduce() {
    print_(data_.train->describe());
    size_t arena = session_.arena()->bytes(), rest = 0;
    for (const HostBuffer& region : session_.regions())
      if (region.name != "arena") rest += region.bytes;
    print_(
        fmt::format("{}: {} parameter tensors, arena {:.1f} MiB, persistent and slots {:.1f} MiB, "
                    "loader {:.1f} MiB, {} threads, {}",
                    config_.model.name, session_.store().parameters().size(),
                    static_cast<double>(arena) / (1 << 20), static_cast<double>(rest) / (1 << 20),
                    static_cast<double>(loader_.bytes()) / (1 << 20), cpu_context().pool().size(),
                    config_.mode));
  }

  // From the loader to the loss; allocates nothing. The batch is valid until the next call.
  const Batch& next_step(int64_t step, Tally& tally) {
    const StepProbe probe;
    const Batch& batch = loader_.next();
    train_on(batch, step, tally);
    return batch;
  }

  void train_on(const Batch& batch, int64_t step, Tally& tally) {
    PreparedStep& ready = session_.train_step(batch.count);
    fill(ready, batch, loader_.shape());
    Tensor lr = ready.input(2), position = ready.input(3);
    lr_ = schedule_.lr(step);
    lr.assign_scalar(lr_);
    const int64_t now[2] = {step, batch.first};
    position.assign(std::span<const int64_t>(now));
    ready.run();
    double loss = ready.output(0).item<double>();
    if (!std::isfinite(loss))
      throw DivergedError(
          fmt::format("training: the loss is {} at step {} (epoch {:.2f}, lr {:.4g}); "
                      "lower optimizer.lr or lengthen schedule.warmup",
                      loss, step, epochs(step), lr_));
    tally.add(ready, batch.count);
  }

  void report(const char* phase, int64_t step, const Tally& tally) {
    rate_ = tally.rate();
    if (phase == std::string_view("train")) trained_ = tally;
    folder_.write(
        {epochs(step + 1), step + 1, phase, tally.mean_loss(), tally.accuracy(), lr_, rate_});
  }

  void say_epoch(int64_t step, double seconds) {
    print_(fmt::format(
        "epoch {:.4g}/{:.4g}  step {}  train loss {:.4f} accuracy {:.2f} %  "
        "test loss {:.4f} accuracy {:.2f} %  lr {:.4g}  {:.0f} s",
        epochs(step + 1), epochs(total_steps_), step + 1, trained_.mean_loss(),
        100 * trained_.accuracy(), tested_->mean_loss(), 100 * tested_->accuracy(), lr_, seconds));
  }

  Config config_;
  const Print& print_;
  DataSplit data_;
  Loader loader_;
  Session session_;
  Evaluator evaluator_;
  int64_t total_steps_;
  Schedule schedule_;
  RunFolder folder_;
  Tally trained_;
  std::optional<Tally> tested_;
  double lr_ = 0, rate_ = 0;
};

}  // namespace

TrainResult train(const Config& config, const Print& print) {
  return Training(config, print).run();
}

TrainResult evaluate_run(const std::string& run_dir, const std::vector<std::string>& overrides,
                         const Print& print) {
  if (!std::filesystem::exists(resolved_config_path(run_dir)))
    throw ConfigError(fmt::format("run folder: there is no '{}'; give the folder of a training",
                                  resolved_config_path(run_dir)));
  Config config = load_config(resolved_config_path(run_dir), overrides);
  DataSplit data = open_data(data_source(config));
  check_classes(config, *data.test);
  Session session(config, data.test->shape(), normalization_of(config, *data.test));
  Evaluator evaluator(session, data.test, evaluation_options(config));
  session.bind();
  session.load_weights(weights_path(run_dir));
  print(data.test->describe());
  Clock::time_point start = Clock::now();
  Tally tally = evaluator.run();
  return {tally.accuracy(), tally.mean_loss(), 0, 0, seconds_since(start)};
}

}  // namespace tessera
