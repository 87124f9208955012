#include "tessera/models/run/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/record_file.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

namespace {

constexpr std::string_view kNameBefore = "step-", kNameAfter = ".safetensors",
                           kPartial = ".partial";
constexpr size_t kMaxName = 40;

// A file name: "step-000000500.safetensors".
struct Name {
  explicit Name(int64_t step) {
    std::snprintf(text, sizeof(text), "step-%09lld.safetensors", static_cast<long long>(step));
  }
  char text[kMaxName + 1];
};

// Returns the step of a name of exactly this form.
std::optional<int64_t> step_of(std::string_view name) {
  int64_t step = 0;
  if (!name.starts_with(kNameBefore) || !name.ends_with(kNameAfter)) return {};
  const std::string_view digits =
      name.substr(kNameBefore.size(), name.size() - kNameBefore.size() - kNameAfter.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0) return {};
  return Name(step).text == name ? std::optional(step) : std::nullopt;
}

// A path on the stack; empty if too long.
struct Path {
  Path(const std::string& dir, const char* name) {
    const int length = std::snprintf(text, sizeof(text), "%s/%s", dir.c_str(), name);
    if (length < 0 || static_cast<size_t>(length) >= sizeof(text)) text[0] = '\0';
  }
  char text[PATH_MAX];
};

using Clock = std::chrono::steady_clock;

}  // namespace

std::string checkpoint_file(const std::string& path, FileSystem& files) {
  const std::filesystem::path whole = path;
  const std::string name = whole.filename().string();
  if (name != "latest" && name != "best") return path;
  const std::string parent = whole.has_parent_path() ? whole.parent_path().string() : ".";
  const CheckpointFolder folder(parent, files);
  const std::optional<int64_t> step = folder.named(name.c_str());
  return step ? folder.path(*step) : path;
}

std::string CheckpointFolder::path(int64_t step) const { return dir_ + "/" + Name(step).text; }

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(dir_))
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

std::optional<int64_t> CheckpointFolder::named(const char* name) const {
  try {
    const FileSource file(dir_ + "/" + name, files_);
    std::string text(static_cast<size_t>(std::min<uint64_t>(file.size(), kMaxName)), '\0');
    file.read(0, text.data(), text.size());
    return text.ends_with('\n') ? step_of(std::string_view(text).substr(0, text.size() - 1))
                                : std::nullopt;
  } catch (const Error&) {
    return {};
  }
}

std::vector<int64_t> CheckpointFolder::candidates() const {
  std::vector<int64_t> order = steps();
  const int64_t latest = named("latest").value_or(INT64_MAX);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    if ((a <= latest) != (b <= latest)) return a <= latest;
    return a > b;
  });
  return order;
}

void CheckpointFolder::remove_partial_files() const {
  for (const char* name : {"latest.partial", "best.partial"}) files_.unlink(Path(dir_, name).text);
  for (const std::string& name : names_in(dir_))
    if (name.ends_with(kPartial) &&
        step_of(std::string_view(name).substr(0, name.size() - kPartial.size())))
      files_.unlink(Path(dir_, name.c_str()).text);
}

FileError CheckpointFolder::write(int64_t step, std::span<const std::byte> image) const noexcept {
  return write_sealed(files_, Path(dir_, Name(step).text).text, image);
}

FileError CheckpointFolder::point(const char* name, int64_t step) const noexcept {
  Name text(step);
  const size_t length = std::strlen(text.text);
  text.text[length] = '\n';
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text.text, length + 1))};
  return write_durably(files_, Path(dir_, name).text, parts);
}

FileError CheckpointFolder::remove(int64_t step) const noexcept {
  int left = 1000;
  while (files_.unlink(Path(dir_, Name(step).text).text) < 0)
    if (errno == ENOENT)
      break;
    else if (errno != EINTR || --left == 0)
      return {"remove", errno};
  return {};
}

CheckpointWriter::CheckpointWriter(const CheckpointFolder& folder, CheckpointImage image, int keep,
                                   std::vector<int> synchronise_first)
    : folder_(folder),
      image_(std::move(image)),
      keep_(static_cast<size_t>(std::max(1, keep))),
      synchronise_first_(std::move(synchronise_first)),
      steps_(folder.steps()) {
  steps_.reserve(steps_.size() + keep_ + 3);  // plus the best and a new one
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
    // A success does not replace the unread report of a failure.
    const FileError metrics_before = report_ ? report_->metrics_fault : FileError();
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

// Removes old checkpoints. Leaves those newer than `step`: they belong to an abandoned training and
// are overwritten when this training reaches them.
FileError CheckpointWriter::prune(int64_t step, int64_t best) {
  FileError fault;
  auto end = std::upper_bound(steps_.begin(), steps_.end(), step);
  size_t others = 0;  // removable, without the best
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
    if (const FileError wrong = folder_.remove(*at)) {
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
