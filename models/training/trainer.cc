#include "tessera/models/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/store.h"
#include "tessera/graph/program.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/models/config/schedule.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/processes.h"
#include "tessera/models/training/runs_ahead.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/training_console.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/files/file_system.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {
namespace {

// TrainingState::evaluation_due
enum { kNoneDue, kEvaluationDue, kTestDue };

// Steps in a row whose gradients overflow before a training with a scaled loss ends.
constexpr int64_t kMaxOverflows = 20;

// Throws if the final weights give a loss that is not finite.
void require_finite(const char* phase, const Evaluation& result) {
  if (std::isfinite(result.mean_loss())) return;
  throw DivergedError(
      fmt::format("training: the final {} loss is {}: the weights are unusable; lower "
                  "optimizer.lr or lengthen schedule.warmup",
                  phase, result.mean_loss()));
}

// Returns the index of the first element that is not finite; checks float32 only, the dtype of
// weights.
std::optional<size_t> first_non_finite(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32) return {};
  const std::vector<float> values = tensor.to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) return i;
  return {};
}

// A submitted step.
struct SubmittedStep {
  CompiledStep* step;
  Batch batch;
  int64_t number;
  double lr;
};

class TrainingLoop {
 public:
  TrainingLoop(TrainingSetup& setup, const TrainOptions& options)
      : setup_(setup),
        state_(setup.state),
        options_(options),
        shared_stop_(setup.run.exchange(), options.stop),
        scaling_(loss_scaling(setup.config())),
        schedule_(check_epochs(setup.config(), setup.loader->samples())),
        waits_(*setup.loader),
        console_(setup),
        runs_([this](const SubmittedStep& run) { look_at(run); }),
        skipped_(context(setup.run.session().device()).skipped_updates()) {
    since_log_.resume(state_.log_loss, state_.log_correct, state_.log_images);
    since_epoch_.resume(state_.epoch_loss, state_.epoch_correct, state_.epoch_images);
  }

  TrainResult run() {
    if (setup_.run.leads()) console_.introduce();
    release_unused_heap();  // left by the search for larger batches
    start_ = since_log_.start = Clock::now();
    const bool goes_on = state_.step < setup_.total_steps;
    if (goes_on && state_.evaluation_due == kTestDue)
      state_.evaluation_due = kNoneDue;  // lengthened
    if (state_.evaluation_due == kEvaluationDue && evaluate(NAN)) save_if_due();
    while (state_.step < setup_.total_steps && !stopped()) {
      shared_stop_.before_step();
      if (stopped()) break;
      const bool last = next_step();
      if (waits_.step()) setup_.print(waits_.warning());
      ++state_.step;
      state_.batch = last ? 0 : state_.batch + 1;
      state_.epoch += last;
      console_.show_progress(since_log_, seconds());
      after_step(last);
    }
    return finish();
  }

 private:
  bool stopped() const { return shared_stop_.signal() != 0; }

  double seconds() const { return seconds_since(start_); }

  // Returns the share of the time since the last line of metrics in which steps waited for data.
  double data_wait() const {
    const double waited = setup_.loader->wait_seconds() - waited_;
    return std::clamp(waited / std::max(seconds_since(since_log_.start), 1e-9), 0.0, 1.0);
  }

  // Returns the state with the current sums.
  const TrainingState& position() {
    state_.log_images = since_log_.images;
    state_.log_loss = since_log_.loss;
    state_.log_correct = since_log_.correct;
    state_.epoch_images = since_epoch_.images;
    state_.epoch_loss = since_epoch_.loss;
    state_.epoch_correct = since_epoch_.correct;
    return state_;
  }

  // Runs a step from the loader to reading the loss, of this step or, on a GPU, of the previous
  // one; allocates nothing.
  bool next_step() {
    const StepProbe probe;
    const Batch& batch = setup_.loader->next();
    Session& session = setup_.run.session();
    CompiledStep& step = session.train_step(batch.all);
    fill(step, batch);
    session.set_targets(step, std::span(batch.labels, static_cast<size_t>(batch.count)),
                        batch.partners, batch.shares);
    state_.lr = schedule_.lr(state_.step);
    if (state_.plateau_factor > 0) state_.lr *= state_.plateau_factor;
    Tensor(step.host_input(2)).assign_scalar(state_.lr);
    const int64_t now[2] = {state_.step, batch.first};
    Tensor(step.host_input(3)).assign(std::span<const int64_t>(now));
    runs_.submit({&step, batch, state_.step, state_.lr});
    return batch.last;
  }

  void look_at(const SubmittedStep& run) {
    const double loss = run.step->host_output(0).item<double>();
    const bool skips = setup_.run.session().skips();
    const bool skipped = skips && !std::isfinite(run.step->host_output(2).item<double>());
    if (scaling_ == LossScaling::dynamic) loss_scale_ = 1 / run.step->host_output(3).item<double>();
    const int64_t skipped_now = run.step->skipped_updates();
    const bool some_skipped = std::exchange(skipped_, skipped_now) != skipped_now;
    if (!std::isfinite(loss) || some_skipped) not_finite(run, loss, skipped);
    if (!skipped) state_.skipped_in_a_row = 0;
    // If only scaled gradients overflowed, loss and accuracy are those of the batch.
    if (skipped && (scaling_ == LossScaling::off || !std::isfinite(loss))) return;
    since_log_.add(*run.step, run.batch.all);
    since_epoch_.add(*run.step, run.batch.all);
  }

  // Handles a number that is not finite, from which no update was made: reports its source, then
  // ends the training or continues with the next batch. A batch is not skipped if only some running
  // statistics could not be updated from it. With a scaled loss, skipped batches are usual, and
  // only counted unless there are many in a row.
  void not_finite(const SubmittedStep& run, double loss, bool skipped) {
    state_.skipped += skipped;
    state_.skipped_in_a_row += skipped;
    if (skipped && scaling_ != LossScaling::off && state_.skipped_in_a_row < kMaxOverflows) return;
    const std::optional<NonFinite> culprit = run.step->find_non_finite();
    std::string text = fmt::format(
        "{} at step {} (epoch {:.2f}, lr {:.4g}){}",
        std::isfinite(loss)
            ? "an update is not finite"
            : fmt::format("the loss is {}", std::isnan(loss) ? std::abs(loss) : loss),
        run.number, setup_.epochs(run.number), run.lr, culprit ? ": " + culprit->text() : "");
    const std::string lost = skipped ? why_lost() : "";
    if (!lost.empty())
      throw DivergedError(
          fmt::format("training: {}; the weights are unusable: {}; lower optimizer.lr or lengthen "
                      "schedule.warmup, and start again or resume an earlier checkpoint with "
                      "--resume=PATH",
                      text, lost));
    if (!setup_.run.session().skips())
      throw DivergedError(
          fmt::format("training: {}; lower optimizer.lr or lengthen schedule.warmup, or set "
                      "train.non_finite to skip such batches",
                      text));
    log(LogLevel::warning, fmt::format("training: {}; {}", text,
                                       skipped ? "the batch is skipped"
                                               : "the running statistics are not updated from it"));
  }

  // Skipping leaves the weights unchanged, so a failure on all images of an epoch repeats for ever,
  // as does one from a weight that is not finite.
  std::string why_lost() {
    constexpr int64_t kMinSkipped = 10, kMaxSkipped = 100;
    const bool scaled = scaling_ != LossScaling::off;
    for (const Tensor& tensor : setup_.persistent()) {
      const std::optional<size_t> element = first_non_finite(tensor);
      if (element)
        return fmt::format("{} is not finite at element {}, which skipping batches cannot fix",
                           persistent_name(tensor), *element);
    }
    if (state_.skipped_in_a_row <
        (scaled ? kMaxOverflows : std::clamp(state_.batches, kMinSkipped, kMaxSkipped)))
      return "";
    return fmt::format("{} batches in a row were skipped{}{}", state_.skipped_in_a_row,
                       state_.skipped_in_a_row >= state_.batches ? ", all of an epoch" : "",
                       scaled ? ", so the overflow of float16 is not due to the loss scale" : "");
  }

  void after_step(bool last_of_epoch) {
    const TrainConfig& train = setup_.config().train;
    const int64_t log_every = train.log_every.steps(state_.batches);
    const int64_t evaluate_every = train.evaluate_every.steps(state_.batches);
    const bool end = state_.step == setup_.total_steps;
    const bool evaluates = end || (evaluate_every > 0 && state_.step % evaluate_every == 0);
    const bool whole = end || last_of_epoch;
    const bool logs = whole || (log_every > 0 && state_.step % log_every == 0);
    if (logs || evaluates) runs_.drain();
    // Metrics of the epoch so far, at its end or next to an evaluation.
    const RunningMetrics& said = whole || evaluates ? since_epoch_ : since_log_;
    if (logs || evaluates) {
      state_.train_loss = said.mean_loss();
      state_.train_accuracy = said.accuracy();
    }
    const double wait = data_wait();
    if (logs) {
      report("train", whole ? since_epoch_ : since_log_, since_log_.rate(), whole, wait);
      since_log_ = RunningMetrics();
      waited_ = setup_.loader->wait_seconds();
      if (!evaluates) console_.print_steps(seconds(), wait);
    }
    if (last_of_epoch) tell_waits();
    if (last_of_epoch) since_epoch_ = RunningMetrics();
    if (evaluates) {
      state_.evaluation_due = kEvaluationDue;
      evaluate(wait);
    }
    if (!end && !stopped()) save_if_due();
  }

  // Prints how long processes waited for one another in the last epoch, and for which.
  void tell_waits() {
    const std::shared_ptr<Exchange>& exchange = setup_.run.exchange();
    if (!exchange) return;
    const double now = seconds(), waited = exchange->wait_seconds();
    const double own = (waited - peers_waited_) / std::max(now - peers_since_, 1e-9);
    peers_waited_ = waited, peers_since_ = now;
    double sum = 0, least = 2;
    int slowest = 0, rank = 0;
    for (const std::string& text : exchange->gather(fmt::format("{}", own))) {
      const double share = std::strtod(text.c_str(), nullptr);
      sum += share;
      if (share < least) least = share, slowest = rank;
      ++rank;
    }
    setup_.print(
        fmt::format("processes waited for one another {:.1f} % of the time; process {} on {}, the "
                    "slowest, {:.1f} %",
                    100 * sum / exchange->size(), slowest, exchange->host(slowest), 100 * least));
  }

  void save_if_due() {
    if (!setup_.run.leads()) return;
    bool asked = options_.save != nullptr && options_.save->exchange(false);
    if (asked && !setup_.checkpoints->writer()) {
      setup_.print("a signal requested a checkpoint, but checkpoint.keep is 0: none is written");
      asked = false;
    }
    if (!setup_.checkpoints->due(state_) && !asked) return;
    if (asked)
      setup_.print(fmt::format("checkpoint after step {}, requested by a signal", state_.step));
    runs_.drain();
    setup_.checkpoints->save(position());
  }

  // Evaluates on the validation images, or on the test images if there are none. Returns false if
  // aborted; the evaluation is then repeated when the training is resumed.
  bool evaluate(double wait) {
    const bool validates = setup_.validation != nullptr;
    std::optional<Evaluation>& result = validates ? validated_ : tested_;
    const char* phase = validates ? "validation" : "test";
    const Clock::time_point began = Clock::now();
    result = (validates ? setup_.validation : setup_.evaluator)->run(options_.stop);
    if (!result) return false;
    const bool end = state_.step == setup_.total_steps;
    state_.evaluation_due = validates && end ? kTestDue : kNoneDue;
    report(phase, *result, result->rate(), true);
    if (end) require_finite(phase, *result);
    console_.print_epoch(phase, *result, seconds(), wait);
    setup_.checkpoints->evaluated(state_, result->mean_loss(), result->accuracy());
    follow_plateau(result->mean_loss());
    if (!end && setup_.gives_up()) {
      if (!validates) require_finite(phase, *result);
      state_.evaluation_due = validates ? kTestDue : kNoneDue;
      setup_.print(fmt::format("no better result in {} evaluations (train.patience): training ends",
                               state_.since_best));
      setup_.total_steps = state_.step;
    }
    since_log_.start += Clock::now() - began;
    return true;
  }

  // Evaluates the test images once, at the end of a training with validation images. Returns false
  // if aborted.
  bool test() {
    tested_ = setup_.evaluator->run(options_.stop);
    if (!tested_) return false;
    require_finite("test", *tested_);
    if (std::exchange(state_.evaluation_due, kNoneDue) == kTestDue)
      report("test", *tested_, tested_->rate(), true);
    return true;
  }

  void follow_plateau(double loss) {
    const Config& config = setup_.config();
    if (config.schedule.name != ScheduleKind::kPlateau) return;
    Plateau now{state_.plateau_factor > 0 ? state_.plateau_factor : 1, state_.plateau_best,
                state_.plateau_bad, state_.plateau_cooldown};
    look_at_plateau(config.schedule, config.optimizer.lr, loss, now);
    state_.plateau_factor = now.factor;
    state_.plateau_best = now.best;
    state_.plateau_bad = now.bad;
    state_.plateau_cooldown = now.cooldown;
  }

  void report(const char* phase, const RunningMetrics& tally, double rate, bool whole,
              double wait = NAN) {
    if (setup_.folder == nullptr) return;
    const bool trains = phase == std::string_view("train");
    setup_.folder->write({setup_.epochs(state_.step), state_.step, phase, tally.mean_loss(),
                          tally.accuracy(), state_.lr, rate, whole, wait,
                          trains ? static_cast<double>(state_.skipped) : NAN,
                          trains ? loss_scale_ : NAN});
  }

  // Takes the best weights if the leader can; the others follow.
  bool take_best() {
    const std::shared_ptr<Exchange>& exchange = setup_.run.exchange();
    bool taken =
        setup_.run.leads() && setup_.checkpoints->take_best(setup_.persistent(), position());
    if (exchange) taken = text_of_leader(*exchange, taken ? "best" : "last") == "best";
    if (taken && !setup_.run.leads())
      setup_.checkpoints->load(setup_.persistent(), position().best_step);
    return taken;
  }

  TrainResult finish() {
    runs_.drain();
    const bool evaluated = state_.evaluation_due != kEvaluationDue;
    const bool complete = state_.step == setup_.total_steps && evaluated;
    if (complete && setup_.validation != nullptr && !validated_)  // resumed at the end
      validated_ = setup_.validation->run(options_.stop);
    best_kept_ = complete && take_best();
    if (complete && !tested_) test();
    console_.clear_progress();
    const bool ended = complete && tested_;
    try {
      if (setup_.run.leads()) keep_result(ended);
    } catch (const CheckpointError& error) {
      if (!ended) throw;
      throw ResultNotKept(error.what(), result());
    }
    if (setup_.run.leads()) console_.print_memory();
    TrainResult all = result();
    if (!ended) all.stopped_by = shared_stop_.signal();
    if (const CheckpointWriter* writer = setup_.checkpoints->writer()) {
      all.checkpoint = setup_.checkpoints->path(state_.step);
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
    if (validated_) {
      result.has_validation = true;
      result.validation_accuracy = validated_->accuracy();
      result.validation_loss = validated_->mean_loss();
    }
    result.train_accuracy = state_.train_accuracy;
    result.train_loss = state_.train_loss;
    result.skipped = state_.skipped;
    result.best_step = state_.best_step;
    result.best_value = state_.best_value;
    result.best_kept = best_kept_;
    result.steps = state_.step;
    result.epochs = setup_.epochs(state_.step);
    result.seconds = seconds();
    return result;
  }

  // Writes the weights first, so that no other failure can lose them. If they cannot be written,
  // the checkpoint from which they can be restored is still saved.
  void keep_result(bool complete) {
    const std::string weights = weights_path(setup_.folder->dir());
    const int64_t step = best_kept_ ? state_.best_step : state_.step;
    std::string lost;
    try {
      if (complete) setup_.run.session().save_weights(weights, step, setup_.inference.text());
    } catch (const CheckpointError& error) {
      lost = error.what();
    }
    if (tested_ || validated_) write_report();
    for (const std::string& file : setup_.folder->incomplete())
      log(LogLevel::warning, "the run folder is not complete: " + file);
    try {
      if (best_kept_) setup_.checkpoints->load(setup_.persistent(), state_.step);
      setup_.checkpoints->save_now(position());
    } catch (const CheckpointError& error) {
      if (lost.empty() && complete)
        throw CheckpointError(
            fmt::format("{}; the weights after step {} are in '{}'", error.what(), step, weights));
      if (lost.empty()) throw;
      throw CheckpointError(lost + "\n" + error.what());
    }
    if (!lost.empty())
      throw CheckpointError(lost + "; " + setup_.checkpoints->last_checkpoint_hint());
  }

  void write_report() {
    const Config& config = setup_.config();
    RunReport report;
    report.title = fmt::format("{} on {}", config.model.name, config.data.name);
    report.summary = setup_.summary;
    report.plan = std::move(setup_.drawing);
    try {
      report.metrics = read_metrics(setup_.folder->dir() + "/metrics.csv");
    } catch (const DataError& error) {
      log(LogLevel::warning, fmt::format("report.html has no curves: {}", error.what()));
    }
    report.phase = tested_ ? "test" : "validation";
    report.best_step = state_.best_step;
    report.facts = facts(report.metrics);
    report.config = print_config(config);
    add_evaluation(report, tested_ ? *tested_ : *validated_,
                   tested_ ? *setup_.run.data().test : *setup_.run.data().validation);
    setup_.folder->put_if_possible("report.html", report_pieces(report));
  }

  // Returns the data, the length and the time of the training.
  std::vector<std::pair<std::string, std::string>> facts(
      const std::vector<Metrics>& metrics) const {
    const Config& config = setup_.config();
    double rate = 0, lines = 0;
    for (const Metrics& m : metrics)
      if (std::string_view(m.phase) == "train" && std::isfinite(m.images_per_second))
        rate += m.images_per_second, ++lines;
    std::vector<std::pair<std::string, std::string>> facts{
        {"data", setup_.run.data().train->describe() + "\n" + setup_.run.data().test->describe()},
        {"training",
         fmt::format(
             "{} steps of {} images, {:.4g} epochs{}", state_.step,
             std::min(config.data.batch, setup_.loader->samples()), setup_.epochs(state_.step),
             best_kept_
                 ? fmt::format("; weights.safetensors and the test use the best weights on the "
                               "validation images, after step {}",
                               state_.best_step)
                 : "")},
        {"time",
         fmt::format("{} in this process{}", duration_text(seconds()),
                     lines > 0 ? fmt::format(", {:.4g} images/s in training", rate / lines) : "")},
        {"ended", utc_text(std::time(nullptr))},
        {"device",
         fmt::format("{}, {} threads, {} kernels, {}", config.device, cpu_context().threads(),
                     cpu_context().kernels_name(), config.mode.text())},
        {"program", std::string("Tessera ") + tessera_version()}};
    if (const std::string all = run_file(setup_.folder->dir(), "command.txt"); !all.empty())
      facts.emplace_back("command", all.substr(0, all.find_last_not_of('\n') + 1));
    return facts;
  }

  using Clock = std::chrono::steady_clock;
  TrainingSetup& setup_;
  TrainingState& state_;  // the state of setup_
  const TrainOptions& options_;
  SharedStop shared_stop_;
  const LossScaling scaling_;
  const Schedule schedule_;
  WaitMonitor waits_;
  TrainingConsole console_;
  RunsAhead<SubmittedStep> runs_;
  double loss_scale_ = NAN;  // factor of the last examined step, if dynamic
  int64_t skipped_;          // skipped updates before the step that is examined
  RunningMetrics since_log_, since_epoch_;
  double peers_waited_ = 0, peers_since_ = 0;  // seconds, at the end of the last epoch
  double waited_ = 0;  // seconds of waiting for data before since_log_ began
  std::optional<Evaluation> tested_, validated_;
  bool best_kept_ = false;  // if true, the tensors hold the best weights until all is written
  Clock::time_point start_;
};

}  // namespace

TrainResult train(const Config& config, const Print& print, const TrainOptions& options) {
  const Run run = Run::shared(config, options.exchange);
  const SettingsScope settings(run.settings());
  TrainResult result;
  with_memory_advice(run, [&] {
    TrainingSetup setup = [&] {
      try {
        require_shareable(run);
        require_run_folder(config.run.dir);
        require_fit_ahead(run);
        return set_up_training(run, print, options);
      } catch (const ConfigError& error) {
        rethrow_placed(config, error);
      }
    }();
    const AbandonOnError before_the_memory_goes(options.exchange);
    result = TrainingLoop(setup, options).run();
  });
  return result;
}

}  // namespace tessera
