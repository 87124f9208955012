#include "tessera/models/training/checkpointing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_keys.h"
#include "tessera/models/data/moments.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/exchange/exchange.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

namespace {

// Returns true for keys that may differ on resume: they decide the length, the speed and the device
// of a training, not its results. Another device or other kernels differ only in the last bits.
bool may_differ(std::string_view key) {
  constexpr std::string_view kOfBits[] = {"train.accumulate", "train.freeze",
                                          "train.freeze_all_but"};
  if (std::find(std::begin(kOfBits), std::end(kOfBits), key) != std::end(kOfBits)) return false;
  constexpr std::string_view kGroups[] = {"train.",   "eval.",   "cpu.",
                                          "devices.", "memory.", "checkpoint.",
                                          "resume.",  "run.",    "distributed."};
  constexpr std::string_view kKeys[] = {"device",       "mode",      "deterministic", "threads",
                                        "data.workers", "data.root", "data.prefetch", "data.cache"};
  return std::any_of(std::begin(kGroups), std::end(kGroups),
                     [&](std::string_view group) { return key.starts_with(group); }) ||
         std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

// Fills in the normalization that a checkpoint measured, if its configuration leaves that to the
// data and the current one gives numbers, as the resolved configuration of its run does.
void add_measured(const CheckpointFile& checkpoint, const std::map<std::string, std::string>& now,
                  std::map<std::string, std::string>& then) {
  const auto known = normalization_in(checkpoint.inference());
  if (!known) return;
  for (const auto& [key, values] :
       {std::pair("data.mean", &known->mean), {"data.std", &known->std}}) {
    const auto is = now.find(key);
    if (then[key] != "[]" || is == now.end() || is->second == "[]") continue;
    std::vector<double> numbers;
    for (float value : *values) numbers.push_back(shortest(value));
    then[key] = fmt::format("[{}]", fmt::join(numbers, ", "));
  }
}

std::string fault_text(const FileError& fault) {
  return fmt::format("{} failed: {}", fault.operation, std::strerror(fault.error));
}

bool same_folder(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error);
}

}  // namespace

std::string check_same_training(const Config& config, const CheckpointFile& checkpoint) {
  const auto now = config_values(print_config(config)),
             usual = config_values(print_config(Config()));
  auto then = config_values(with_current_names(checkpoint.config()));
  add_measured(checkpoint, now, then);
  auto value = [&](const std::map<std::string, std::string>& values, const std::string& key) {
    if (const auto found = values.find(key); found != values.end()) return found->second;
    const auto found = usual.find(key);
    return found == usual.end() ? std::string() : found->second;
  };
  std::map<std::string, std::string> all = now;
  all.insert(then.begin(), then.end());
  // On a CPU, GPU settings are not read, and are refused.
  const auto on_cpu = [&](const std::map<std::string, std::string>& values) {
    const std::string device = value(values, "device");
    return device.starts_with("cpu") || device.starts_with("\"cpu");  // cpu:0 has quotes
  };
  const bool between_devices = on_cpu(now) || on_cpu(then);
  std::string wrong, note;
  for (const auto& entry : all) {
    const std::string is = value(now, entry.first), was = value(then, entry.first);
    if (is == was || may_differ(entry.first)) continue;
    if (between_devices && entry.first.starts_with("gpu.")) continue;
    const std::string difference =
        fmt::format("{}: {}, but the checkpoint was trained with {}", entry.first.substr(0, 64),
                    is.substr(0, 200), was.substr(0, 200));
    if (entry.first == "precision")
      note = difference;
    else
      wrong += "\n  " + difference;
  }
  if (!wrong.empty())
    throw ConfigError(fmt::format(
        "resume: the configuration differs from that of checkpoint '{}'; restore these keys, "
        "or start a new run in another run.dir:{}",
        checkpoint.path(), wrong));
  return note;
}

FileSystem& TrainOptions::file_system() const {
  return files != nullptr ? *files : tessera::file_system();
}

Checkpointing::Checkpointing(const Config& config, const TrainOptions& options, const Print& print)
    : config_(config),
      print_(print),
      leads_(!options.exchange || options.exchange->rank() == 0),
      overwrite_(options.overwrite),
      resume_auto_(options.resume == "auto"),
      folder_(checkpoints_path(config.run.dir), options.file_system()) {
  if (!options.resume.empty()) find_beginning(options);
  if (beginning_ != nullptr) {
    const std::string note = check_same_training(config_, *beginning_);
    if (!note.empty()) print_(note);
    check_length();
  }
  refuse_to_overwrite();
}

// A job that runs with resume "auto" may be killed at any time. Metrics written before its first
// checkpoint are then overwritten; final weights are not.
void Checkpointing::refuse_to_overwrite() const {
  if (overwrite_ || resumes_here() || !leads_) return;
  refuse_hdf5_run(config_.run.dir, folder_.files());
  const EarlierTraining there = earlier_training(config_.run.dir, folder_.files());
  if (!there.checkpoint && !there.weights && (!there.metrics || resume_auto_)) return;
  throw ConfigError(fmt::format(
      "run folder: '{}' already contains a training ({}); {}start a new run with --overwrite, or "
      "set another run.dir",
      config_.run.dir,
      there.checkpoint ? fmt::format("checkpoints up to step {}", *there.checkpoint)
                       : fmt::format("{}, but no checkpoint to resume from",
                                     there.weights ? "weights.safetensors" : "metrics.csv"),
      there.checkpoint ? "resume it with --resume, " : ""));
}

void Checkpointing::clear() const {
  if (leads_ && overwrite_ && !resumes_here()) remove_run_files(config_.run.dir, folder_.files());
}

// Uses the batches per epoch of the checkpoint; restore() checks that the data have as many.
void Checkpointing::check_length() const {
  const TrainingState& state = beginning_->state();
  const int64_t total = config_.train.total_steps(state.batches);
  if (state.step > total)
    throw ConfigError(
        fmt::format("resume: checkpoint '{}' is at step {}, but train.steps or "
                    "train.epochs ends the training at step {}",
                    beginning_->path(), state.step, total));
}

void Checkpointing::find_beginning(const TrainOptions& options) {
  namespace fs = std::filesystem;
  FileSystem& files = options.file_system();
  std::error_code error;
  if (options.resume == "auto") {
    in_own_folder_ = true;
    try_candidates(folder_);
    if (beginning_ != nullptr) return;
    if (!overwrite_) refuse_hdf5_run(config_.run.dir, files);
    print_(fmt::format("nothing to resume in '{}': starting a new run", folder_.dir()));
    return;
  }
  const fs::path path = options.resume;
  if (fs::is_directory(path, error)) {
    const fs::path inner = checkpoints_path(path.string());
    const CheckpointFolder folder(fs::is_directory(inner, error) ? inner.string() : path.string(),
                                  files);
    in_own_folder_ = same_folder(folder.dir(), folder_.dir());
    try_candidates(folder);
    if (beginning_ != nullptr) return;
    refuse_hdf5_run(path.string(), files);
    throw CheckpointError(fmt::format("resume: there is no checkpoint in '{}'", path.string()));
  }
  in_own_folder_ = same_folder(path.has_parent_path() ? path.parent_path() : ".", folder_.dir());
  beginning_ = std::make_unique<CheckpointFile>(checkpoint_file(path.string(), files), files);
}

void Checkpointing::try_candidates(const CheckpointFolder& folder) {
  std::string wrong;
  for (int64_t step : folder.candidates()) {
    try {
      beginning_ = std::make_unique<CheckpointFile>(folder.path(step), folder.files());
      return;
    } catch (const CheckpointError& error) {
      log(LogLevel::warning, fmt::format("{}; trying the previous one", error.what()));
      wrong += fmt::format("\n  {}", error.what());
    }
  }
  if (!wrong.empty())
    throw CheckpointError(
        fmt::format("resume: none of the checkpoints in '{}' can be used:{}", folder.dir(), wrong));
}

void Checkpointing::check_data(int64_t batches, int64_t images) const {
  if (beginning_ == nullptr) return;
  const TrainingState& saved = beginning_->state();
  if (saved.batches != batches || saved.images != images)
    throw CheckpointError(
        fmt::format("checkpoint '{}': was trained on {} images in {} batches, but the data now "
                    "have {} images in {} batches",
                    beginning_->path(), saved.images, saved.batches, images, batches));
}

void Checkpointing::check_machine(Device device) const {
  if (beginning_ == nullptr) return;
  const std::filesystem::path folder = std::filesystem::path(beginning_->path()).parent_path();
  const std::string changes =
      environment_changes((folder / "..").string(), device, config_.resume.exact);
  if (changes.empty()) return;
  if (config_.resume.exact)
    throw CheckpointError(fmt::format(
        "resume.exact: the results would not have the same bits as those of checkpoint '{}': {}; "
        "resume where it was written, or set resume.exact=false",
        beginning_->path(), changes));
  log(LogLevel::warning,
      fmt::format("resume: the same bits require the same computer and build, but {}; training "
                  "continues; set resume.exact=true to refuse",
                  changes));
}

void Checkpointing::reserve(Tensors tensors, int64_t steps_per_epoch,
                            const std::string& inference) {
  if (!config_.checkpoint.every.is_time())
    every_steps_ = config_.checkpoint.every.steps(steps_per_epoch);
  if (!leads_) return;
  buffers_ = planned_buffers(config_, tensors);
  if (buffers_.empty()) return;
  RawMemory& memory = context(tensors.at(0).device()).staging_memory();
  image_.emplace(std::move(tensors), print_config(config_), inference, memory);
}

void Checkpointing::restore(const Tensors& tensors, TrainingState& state) const {
  if (beginning_ == nullptr) return;
  check_data(state.batches, state.images);
  beginning_->load(tensors);
  state = beginning_->state();
  // Forget the best step if another metric chose it, or its value is not finite.
  if (config_values(beginning_->config())["checkpoint.best"] != config_.checkpoint.best.text() ||
      !std::isfinite(state.best_value))
    state.best_step = -1;
}

void Checkpointing::start(const Tensors& tensors, TrainingState& state, std::vector<int> metrics) {
  last_ = Clock::now();
  if (!image_) return;
  make_run_folder(folder_.dir());
  writer_ = std::make_unique<CheckpointWriter>(folder_, *std::exchange(image_, std::nullopt),
                                               config_.checkpoint.keep, std::move(metrics));
  if (beginning_ == nullptr) return;
  if (!resumes_here() && state.best_step >= 0 && !carry_best(tensors, state)) state.best_step = -1;
  if (!resumes_here()) return;
  std::error_code error;
  if (!std::filesystem::exists(folder_.path(state.best_step), error)) state.best_step = -1;
  writer_->adopt(state);
}

// Copies the best checkpoint through the tensors, then restores them, because the image is the only
// memory for a checkpoint.
bool Checkpointing::carry_best(const Tensors& tensors, const TrainingState& state) {
  const std::filesystem::path from = beginning_->path();
  const CheckpointFolder theirs(from.has_parent_path() ? from.parent_path().string() : ".",
                                folder_.files());
  try {
    const CheckpointFile best(theirs.path(state.best_step), folder_.files());
    TrainingState then = best.state();
    if (then.step != state.best_step || then.best_step != state.best_step)
      throw CheckpointError(
          fmt::format("checkpoint '{}': is not the best checkpoint", best.path()));
    best.load(tensors);
    writer_->save(then);
    const CheckpointReport report = *writer_->wait();
    beginning_->load(tensors);
    if (report.saved) return true;
    print_report(report);
  } catch (const CheckpointError& error) {
    log(LogLevel::warning,
        fmt::format("resume: the best checkpoint, after step {}, cannot be used: {}; only later "
                    "checkpoints can now be the best",
                    state.best_step, error.what()));
    beginning_->load(tensors);
  }
  return false;
}

void Checkpointing::evaluated(TrainingState& state, double loss, double accuracy) {
  const BestBy best = config_.checkpoint.best;
  if (best == BestBy::kNone) return;
  const bool by_loss = best == BestBy::kLoss;
  const double value = by_loss ? loss : accuracy;
  ++state.since_best;
  if (!std::isfinite(value)) return;
  const bool better = by_loss ? value < state.best_value : value > state.best_value;
  if (state.best_step >= 0 && !better) return;
  state.since_best = 0;
  state.best_step = state.step;
  state.best_value = value;
  new_best_ = true;
}

bool Checkpointing::due(const TrainingState& state) const {
  if (writer_ == nullptr) return false;
  if (const auto report = writer_->finished()) print_report(*report);
  if (new_best_) return true;
  const Duration& every = config_.checkpoint.every;
  if (every.is_time()) return every.count > 0 && seconds_since(last_) >= every.seconds();
  return every_steps_ > 0 && state.step % every_steps_ == 0;
}

void Checkpointing::save(const TrainingState& state) {
  writer_->save(state);
  new_best_ = false;
  last_ = Clock::now();
}

std::string Checkpointing::last_checkpoint_hint() const {
  const std::vector<int64_t> steps = folder_.candidates();
  if (steps.empty()) return "there is no checkpoint to resume from";
  return fmt::format(
      "the last checkpoint is '{}': fix the problem and continue from it with --resume",
      path(steps.front()));
}

void Checkpointing::print_report(const CheckpointReport& report) const {
  if (report.metrics_fault)
    log(LogLevel::warning,
        fmt::format("checkpoint after step {}: earlier metrics may not be on the disk yet "
                    "({}); training continues",
                    report.step, fault_text(report.metrics_fault)));
  if (!report.fault) {
    if (log_enabled(LogLevel::info))
      log(LogLevel::info,
          fmt::format("checkpoint after step {}: written in {:.1f} ms during the training; so far "
                      "steps waited {:.1f} ms for copies and {:.1f} ms for the disk",
                      report.step, 1e3 * report.seconds, 1e3 * writer_->copy_seconds(),
                      1e3 * writer_->wait_seconds()));
    return;
  }
  const std::string text = fault_text(report.fault);
  log(LogLevel::warning,
      report.saved
          ? fmt::format("checkpoint after step {}: it is written, but the folder is not fully "
                        "updated ({}); training continues",
                        report.step, text)
          : fmt::format("checkpoint after step {}: it could not be written ({}); training "
                        "continues, the previous checkpoint is kept",
                        report.step, text));
}

void Checkpointing::save_now(const TrainingState& state) {
  if (writer_ == nullptr) return;
  if (const auto report = writer_->wait()) print_report(*report);
  writer_->save(state);
  new_best_ = false;
  const auto report = writer_->wait();
  if (!report->fault) return print_report(*report);
  throw CheckpointError(fmt::format(
      "checkpoint '{}': {} ({}); {}", path(state.step),
      report->saved ? "is written, but is not marked as the latest" : "could not be written",
      fault_text(report->fault), last_checkpoint_hint()));
}

bool Checkpointing::take_best(const Tensors& tensors, const TrainingState& state) {
  const bool wanted = config_.data.validation.any() && config_.checkpoint.use == "best";
  if (!wanted || writer_ == nullptr || state.best_step < 0 || state.best_step == state.step)
    return false;
  bool saved = false;
  try {
    save_now(state);
    saved = true;
    load(tensors, state.best_step);
    return true;
  } catch (const CheckpointError& error) {
    log(LogLevel::warning,
        fmt::format(
            "checkpoint.use: {}; weights.safetensors holds the last weights, not the best weights, "
            "which are those after step {}",
            error.what(), state.best_step));
  }
  if (saved) load(tensors, state.step);
  return false;
}

std::vector<MemoryItem> Checkpointing::planned_buffers(const Config& config,
                                                       const Tensors& tensors) {
  if (config.checkpoint.keep == 0) return {};
  return {{"checkpoint", CheckpointImage::planned_bytes(tensors, print_config(config),
                                                        inference_capacity(config))}};
}

int64_t Checkpointing::bytes_on_disk(const Config& config, const Tensors& tensors) {
  constexpr int64_t kReports = int64_t{1} << 20;
  int64_t weights = 0;
  for (const Tensor& tensor : tensors) weights += static_cast<int64_t>(tensor.spec().bytes());
  return total_bytes(planned_buffers(config, tensors)) + weights + kReports;
}

}  // namespace tessera
