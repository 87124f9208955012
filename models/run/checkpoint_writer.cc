#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/runtime/start_thread.h"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

CheckpointWriter::CheckpointWriter(const CheckpointFolder& folder, CheckpointImage image, int keep,
                                   std::vector<int> synchronise_first)
    : folder_(folder),
      image_(std::move(image)),
      keep_(static_cast<size_t>(std::max(1, keep))),
      synchronise_first_(std::move(synchronise_first)),
      steps_(folder.steps()) {
  steps_.reserve(steps_.size() + keep_ + 3);  // the best one and a new one come on top
  folder_.remove_partial_files();
  thread_ = start_thread("writing checkpoints", "set checkpoint.keep=0", [this] { work(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::adopt(const TrainingState& state) {
  if (folder_.named("latest") != state.step) folder_.point("latest", state.step);
  const auto has = [&](int64_t step) {
    return std::binary_search(steps_.begin(), steps_.end(), step);
  };
  if (has(state.best_step) && folder_.named("best") != state.best_step)
    folder_.point("best", state.best_step);
}

void CheckpointWriter::save(const TrainingState& state) {
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  wait_seconds_ += seconds_since(start);
  const Clock::time_point idle = Clock::now();
  image_.take(state);
  copy_seconds_ += seconds_since(idle);
  state_ = state;
  busy_ = true;
  changed_.notify_all();
}

std::optional<CheckpointReport> CheckpointWriter::finished() {
  std::lock_guard lock(mutex_);
  return std::exchange(report_, std::nullopt);
}

std::optional<CheckpointReport> CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  return std::exchange(report_, std::nullopt);
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return busy_ || stop_; });
    if (!busy_) return;
    lock.unlock();
    const CheckpointReport report = persist(state_);
    lock.lock();
    // A failure that nobody has asked about yet is not hidden by a success.
    const FileFault metrics_before = report_ ? report_->metrics_fault : FileFault();
    if (!report_ || !report_->fault || report.fault) report_ = report;
    if (metrics_before) report_->metrics_fault = metrics_before;
    busy_ = false;
    changed_.notify_all();
  }
}

CheckpointReport CheckpointWriter::persist(const TrainingState& state) {
  const Clock::time_point start = Clock::now();
  CheckpointReport report;
  report.step = state.step;
  for (int file : synchronise_first_)
    if (folder_.files().fsync(file) < 0 && errno != EINTR && errno != EINVAL)
      report.metrics_fault = {"synchronise", errno};
  report.fault = folder_.write(state.step, image_.bytes());
  report.saved = !report.fault;
  if (report.saved || report.fault.in_place) {
    const auto at = std::lower_bound(steps_.begin(), steps_.end(), state.step);
    if (at == steps_.end() || *at != state.step) steps_.insert(at, state.step);
  }
  if (report.saved) {
    if (state.best_step == state.step) report.fault = folder_.point("best", state.step);
    if (!report.fault) report.fault = folder_.point("latest", state.step);
    if (!report.fault) report.fault = prune(state.step, state.best_step);
  }
  report.seconds = seconds_since(start);
  return report;
}

// What is newer than `step` belongs to a training that was left behind: it is not ours to remove,
// and is overwritten when this one comes by.
FileFault CheckpointWriter::prune(int64_t step, int64_t best) {
  FileFault fault;
  auto end = std::upper_bound(steps_.begin(), steps_.end(), step);
  size_t others = 0;  // that may go, beside the best
  for (auto at = steps_.begin(); at != end; ++at) others += *at != best;
  const bool best_is_among_newest =
      std::count(end - std::min<ptrdiff_t>(static_cast<ptrdiff_t>(keep_), end - steps_.begin()),
                 end, best) > 0;
  const size_t keep = keep_ - (best_is_among_newest ? 1 : 0);
  for (auto at = steps_.begin(); others > keep && at != steps_.end();) {
    if (*at == best) {
      ++at;
      continue;
    }
    if (const FileFault wrong = folder_.remove(*at)) {
      fault = wrong;
      ++at;
    } else {
      at = steps_.erase(at);
    }
    --others;
  }
  return fault;
}

}  // namespace tessera
