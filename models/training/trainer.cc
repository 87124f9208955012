#include "tessera/models/training/trainer.h"

#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "tessera/graph/program.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/training/progress.h"
#include "tessera/models/run/run_lock.h"
#include "tessera/models/config/schedule.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/step_probe.h"
#include "tessera/models/training/summary.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/data/loader.h"
#include "tessera/runtime/data/wait_monitor.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/text/status_line.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Training {
 public:
  Training(const Config& config, const Print& print, const TrainOptions& options)
      : config_(config),
        print_([&print](const std::string& line) {
          const WithoutStatus above;
          print(line);
        }),
        stop_(options.stop),
        lock_(config.run.dir),
        checkpoints_(config, options, print_),
        data_(open_fitting(config)),
        loader_(data_.train, loader_options(config, true)),
        session_(config, loader_.shape(), normalization_of(config, *data_.train)),
        evaluator_(session_, data_.test, loader_options(config, false), config.model.classes),
        total_steps_(config.train.total_steps(loader_.batches())),
        schedule_(config.schedule, config.optimizer.lr, loader_.batches(), total_steps_),
        folder_(take_folder(options)) {
    checkpoints_.start(persistent(), state_, folder_.descriptors());
    describe(options.command);
    introduce();
    begin();
  }

  TrainResult run() {
    start_ = since_log_.start = Clock::now();
    if (state_.evaluation_due && evaluate()) checkpoints_.after_step(position());
    while (state_.step < total_steps_ && !stopped()) {
      const Batch& batch = next_step();
      if (waits_.step()) print_(waits_.warning());
      const bool last = batch.last;
      ++state_.step;
      state_.batch = last ? 0 : state_.batch + 1;
      state_.epoch += last;
      show_progress();
      after_step(last);
    }
    return finish();
  }

 private:
  // All that can refuse comes first; what an earlier training left goes when nothing can any more.
  RunFolder take_folder(const TrainOptions& options) {
    check_classes(config_, *data_.train);
    session_.train_step(std::min(config_.data.batch, loader_.samples()));
    session_.train_step(last_batch(loader_.samples(), config_.data.batch));
    session_.bind();
    checkpoints_.reserve(persistent(), loader_.batches());
    state_.batches = loader_.batches();
    state_.images = loader_.samples();
    state_.seed = static_cast<int64_t>(config_.seed);
    checkpoints_.restore(persistent(), state_);
    lock_.make();
    checkpoints_.refuse_to_overwrite();  // one that came while this one got ready
    checkpoints_.clear();
    return RunFolder(config_, checkpoints_.metrics_kept(),
                     options.files != nullptr ? *options.files : file_system());
  }

  bool stopped() const { return stop_ != nullptr && *stop_ != 0; }
  double epochs(int64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(loader_.batches());
  }
  Tensors persistent() { return session_.store().persistent(); }

  // Everything of some size that training asks of the machine, each in one request.
  std::vector<HostBuffer> blocks() const {
    std::vector<HostBuffer> all = session_.regions();
    for (const auto& more :
         {loader_.host_buffers(), evaluator_.loader().host_buffers(), data_.train->host_buffers(),
          data_.test->host_buffers(), checkpoints_.host_buffers()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // The files of the run folder that are known before the first step.
  void describe(const std::string& command) {
    folder_.write_memory(blocks());
    folder_.put("env.json", environment_json());
    if (!command.empty()) folder_.put("command.txt", command + "\n");
    for (const HostBuffer& block : blocks()) held_bytes_ += block.bytes;
    Program* program =
        session_.train_step(std::min(config_.data.batch, loader_.samples())).program();
    if (program == nullptr) return;  // eager
    PlanReport report = plan_report(*program);
    for (const HostBuffer& block : blocks())
      report.add_part(block.name, static_cast<int64_t>(block.bytes));
    const PlanPicture picture =
        report.picture(fmt::format("{}, batch {}", config_.model.name, config_.data.batch));
    folder_.put("plan.json", [&](const RunFolder::Piece& piece) { report.json(piece); });
    folder_.put("plan.html", [&](const RunFolder::Piece& piece) {
      draw_plan_html({&picture, 1}, piece);
    });
    const Tensors& parameters = session_.store().parameters();
    summary_ = model_summary(program->graph(), parameters) + "\n" + report.text();
    folder_.put("model.txt", summary_);
    overview_ = model_summary(program->graph(), parameters, 1);
  }

  void introduce() {
    print_(data_.train->describe());
    if (!overview_.empty()) print_(overview_);
    size_t arena = session_.arena()->bytes(), rest = 0;
    for (const HostBuffer& region : session_.regions())
      if (region.name != "arena") rest += region.bytes;
    print_(
        fmt::format("{}: {} parameter tensors, arena {:.1f} MiB, persistent and slots {:.1f} MiB, "
                    "loader {:.1f} MiB, {} threads, {} kernels ({}), {}",
                    config_.model.name, session_.store().parameters().size(),
                    static_cast<double>(arena) / (1 << 20), static_cast<double>(rest) / (1 << 20),
                    static_cast<double>(loader_.bytes()) / (1 << 20), cpu_context().threads(),
                    cpu_context().kernels_name(), isa_name(current_isa()), config_.mode.text()));
    print_("memory: " +
           headroom_text(config_, data_need(data_), static_cast<int64_t>(held_bytes_)));
  }

  // Puts everything where the checkpoint says, if there is one.
  void begin() {
    if (checkpoints_.beginning() == nullptr) return;
    loader_.start_epoch(state_.epoch, state_.batch);
    since_log_.resume(state_.log_loss, state_.log_correct, state_.log_images);
    lr_ = state_.lr;
    print_(fmt::format("resumed after step {} of {} (epoch {:.4g}) from {}", state_.step,
                       total_steps_, epochs(state_.step), checkpoints_.beginning()->path()));
  }

  // The state with the sums as they stand.
  const TrainingState& position() {
    state_.lr = lr_;
    state_.log_images = since_log_.images;
    state_.log_loss = since_log_.loss;
    state_.log_correct = since_log_.correct;
    return state_;
  }

  // From the loader to the loss; allocates nothing. The batch is valid until the next call.
  const Batch& next_step() {
    const StepProbe probe;
    const Batch& batch = loader_.next();
    train_on(batch);
    return batch;
  }

  void train_on(const Batch& batch) {
    CompiledStep& ready = session_.train_step(batch.count);
    fill(ready, batch, loader_.shape());
    session_.set_targets(ready, std::span(batch.labels, static_cast<size_t>(batch.count)),
                         batch.partners, batch.shares);
    Tensor lr = ready.input(2), position = ready.input(3);
    lr_ = schedule_.lr(state_.step);
    lr.assign_scalar(lr_);
    const int64_t now[2] = {state_.step, batch.first};
    position.assign(std::span<const int64_t>(now));
    const int64_t refused = cpu_context().refused_updates;
    ready.run();
    const double loss = ready.output(0).item<double>();
    const bool skipped = skips_ && !std::isfinite(ready.output(2).item<double>());
    if (!std::isfinite(loss) || cpu_context().refused_updates != refused)
      not_finite(batch.count, loss, skipped);
    if (skipped) return;
    since_log_.add(ready, batch.count);
    state_.skipped_in_a_row = 0;
  }

  // No update was made from a number that is not finite. Says where it came from; ends the training
  // or goes on with the next batch. Not skipped, then, is a batch that only some running statistics
  // could not be updated from.
  void not_finite(int64_t count, double loss, bool skipped) {
    constexpr int kMaxSkipped = 100;
    const std::string culprit = session_.find_non_finite(count);
    std::string text = fmt::format(
        "{} at step {} (epoch {:.2f}, lr {:.4g}){}{}",
        std::isfinite(loss) ? "an update is not finite" : fmt::format("the loss is {}", loss),
        state_.step, epochs(state_.step), lr_, culprit.empty() ? "" : ": ", culprit);
    state_.skipped += skipped;
    state_.skipped_in_a_row += skipped;
    if (!skips_ || state_.skipped_in_a_row == kMaxSkipped)
      throw DivergedError(
          fmt::format("training: {}; lower optimizer.lr or lengthen schedule.warmup{}", text,
                      skips_ ? fmt::format(" ({} batches in a row were skipped)", kMaxSkipped)
                             : ", or set train.non_finite to skip such batches"));
    log(LogLevel::warning, fmt::format("training: {}; {}", text,
                                       skipped ? "the batch is skipped"
                                               : "the statistics made of it stay as they were"));
  }

  void show_progress() {
    if (!progress_.active()) return;
    const double seconds = seconds_since(start_);
    progress_.update({.epoch = epochs(state_.step),
                      .epochs = epochs(total_steps_),
                      .batch = state_.batch,
                      .batches = loader_.batches(),
                      .steps_left = total_steps_ - state_.step,
                      .loss = since_log_.mean_loss(),
                      .accuracy = since_log_.accuracy(),
                      .images_per_second = since_log_.rate(),
                      .wait_share = loader_.wait_seconds() / std::max(seconds, 1e-9),
                      .memory_bytes = held_bytes_});
  }

  void after_step(bool last_of_epoch) {
    const int64_t log_every = config_.train.log_every.steps(loader_.batches());
    const int64_t evaluate_every = config_.train.evaluate_every.steps(loader_.batches());
    const bool end = state_.step == total_steps_;
    const bool evaluates = end || (evaluate_every > 0 && state_.step % evaluate_every == 0);
    if (end || last_of_epoch || (log_every > 0 && state_.step % log_every == 0)) {
      report("train", since_log_);
      state_.train_loss = since_log_.mean_loss();
      state_.train_accuracy = since_log_.accuracy();
      since_log_ = Tally();
      if (!evaluates) say_steps();
    }
    if (evaluates) {
      state_.evaluation_due = 1;
      evaluate();
    }
    if (!end && !stopped()) checkpoints_.after_step(position());
  }

  // False when it was broken off; it is made up for when training goes on.
  bool evaluate() {
    tested_ = evaluator_.run(stop_);
    if (!tested_) return false;
    state_.evaluation_due = 0;
    report("test", *tested_);
    say_epoch();
    checkpoints_.evaluated(state_, tested_->mean_loss(), tested_->accuracy());
    since_log_.start = Clock::now();
    return true;
  }

  TrainResult finish() {
    const bool complete = state_.step == total_steps_ && !state_.evaluation_due;
    if (complete && !tested_) tested_ = evaluator_.run(stop_);  // resumed at the end
    progress_.clear();
    const bool ended = complete && tested_;
    try {
      keep_result(ended);
    } catch (const CheckpointError& error) {
      if (!ended) throw;
      throw ResultNotKept(error.what(), result());
    }
    say_memory();
    TrainResult all = result();
    if (!ended) all.stopped_by = *stop_;
    if (const CheckpointWriter* writer = checkpoints_.writer()) {
      all.checkpoint = checkpoints_.path(state_.step);
      all.checkpoint_wait = writer->wait_seconds() + writer->copy_seconds();
    }
    return all;
  }

  TrainResult result() const {
    TrainResult result;
    if (tested_) {
      result.test_accuracy = tested_->accuracy();
      result.test_loss = tested_->mean_loss();
      result.test_top5 = tested_->top5();
      result.confusion = tested_->confusion;
    }
    result.train_accuracy = state_.train_accuracy;
    result.train_loss = state_.train_loss;
    result.skipped = state_.skipped;
    result.best_step = state_.best_step;
    result.best_value = state_.best_value;
    result.steps = state_.step;
    result.epochs = epochs(state_.step);
    result.seconds = seconds_since(start_);
    return result;
  }

  // The weights first: nothing else that cannot be written costs them. Nor do they, where they
  // cannot be written, cost the checkpoint from which they can be made again.
  void keep_result(bool complete) {
    std::string lost;
    try {
      if (complete) session_.save_weights(folder_.weights_path(), state_.step);
    } catch (const CheckpointError& error) {
      lost = error.what();
    }
    if (tested_) write_report();
    for (const std::string& file : folder_.incomplete())
      log(LogLevel::warning, "the run folder is not complete: " + file);
    try {
      checkpoints_.save_now(position());
    } catch (const CheckpointError& error) {
      if (lost.empty() && complete)
        throw CheckpointError(fmt::format("{}; the weights after step {} are in '{}'", error.what(),
                                          state_.step, folder_.weights_path()));
      if (lost.empty()) throw;
      throw CheckpointError(lost + "\n" + error.what());
    }
    if (!lost.empty()) throw CheckpointError(lost + "; " + checkpoints_.way_back());
  }

  // What was known before, and what the system says of it.
  void say_memory() const {
    const HostMemory now = host_memory();
    print_(
        fmt::format("memory: {} {}; the process has {} in use, the machine {} of {} free",
                    byte_text(static_cast<int64_t>(held_bytes_)),
                    config_.mode == Mode::kEager ? "besides what eager steps took" : "as planned",
                    byte_text(now.process), byte_text(now.free), byte_text(now.total)));
  }

  void write_report() {
    RunReport report;
    report.title = fmt::format("{} on {}", config_.model.name, config_.data.name);
    report.summary = summary_;
    try {
      report.metrics = read_metrics(folder_.dir() + "/metrics.csv");
    } catch (const DataError& error) {
      log(LogLevel::warning, fmt::format("report.html has no curves: {}", error.what()));
    }
    report.confusion = tested_->confusion;
    report.classes = data_.test->class_names();
    report.top1 = tested_->accuracy();
    if (config_.model.classes > 5) report.top5 = tested_->top5();
    folder_.put_if_possible("report.html", report_html(report));
  }

  void report(const char* phase, const Tally& tally) {
    folder_.write({epochs(state_.step), state_.step, phase, tally.mean_loss(), tally.accuracy(),
                   lr_, tally.rate()});
  }

  // Where no bar shows how training goes. The first lines come as often as they are logged; a long
  // training does not fill a file with them.
  void say_steps() {
    constexpr int kAtOnce = 50;
    constexpr double kSecondsBetween = 10;
    if (progress_.active()) return;
    if (lines_said_ >= kAtOnce && seconds_since(last_line_) < kSecondsBetween) return;
    ++lines_said_;
    last_line_ = Clock::now();
    print_(fmt::format(
        "epoch {:.4g}/{:.4g}  step {}  train loss {:.4f} accuracy {:.2f} %  lr {:.4g}  {:.0f} s",
        epochs(state_.step), epochs(total_steps_), state_.step, state_.train_loss,
        100 * state_.train_accuracy, lr_, seconds_since(start_)));
  }

  void say_epoch() {
    print_(
        fmt::format("epoch {:.4g}/{:.4g}  step {}  train loss {:.4f} accuracy {:.2f} %  "
                    "test loss {:.4f} accuracy {:.2f} %  lr {:.4g}  {:.0f} s",
                    epochs(state_.step), epochs(total_steps_), state_.step, state_.train_loss,
                    100 * state_.train_accuracy, tested_->mean_loss(), 100 * tested_->accuracy(),
                    lr_, seconds_since(start_)));
  }

  Config config_;
  const bool skips_ = config_.train.non_finite == OnNonFinite::kSkip;
  const Print print_;  // above the progress bar
  const std::atomic<int>* stop_;
  RunLock lock_;
  Checkpointing checkpoints_;
  DataSplit data_;
  Loader loader_;
  WaitMonitor waits_{loader_};
  Session session_;
  Evaluator evaluator_;
  int64_t total_steps_;
  Schedule schedule_;
  TrainingState state_;
  RunFolder folder_;
  Tally since_log_;
  std::optional<Evaluation> tested_;
  Progress progress_;
  std::string summary_, overview_;  // the model line by line, and its parts
  size_t held_bytes_ = 0;
  double lr_ = 0;
  Clock::time_point start_, last_line_;
  int lines_said_ = 0;
};

}  // namespace

TrainResult train(const Config& config, const Print& print, const TrainOptions& options) {
  require_fit(config);
  return Training(config, print, options).run();
}

}  // namespace tessera
