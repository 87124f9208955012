#include "tessera/models/training/training_console.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/arena.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/processes.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/training.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/text/number.h"
#include "tessera/runtime/text/terminal.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

namespace {

// Returns how numbers are stored and multiplied if that is not float32 throughout.
std::string precision_text(const Config& config, Device device) {
  if (config.precision != Precision::float32) return ", " + config.precision.text();
  return !device.is_cpu() && config.gpu.tf32 ? ", products in TF32" : "";
}

std::string bar(double share, size_t width) {
  const auto done = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  std::string text(done, '=');
  if (done < width) text += '>';
  text.resize(width, ' ');
  return text;
}

// Returns the rate in at most five characters.
std::string rate_text(double rate) {
  if (rate < 9.95) return fmt::format("{:.1f}", rate);
  if (rate < 9999.5) return fmt::format("{:.0f}", rate);
  if (rate < 99.95e3) return fmt::format("{:.1f}k", rate / 1e3);
  if (rate < 999.5e3) return fmt::format("{:.0f}k", rate / 1e3);
  return fmt::format("{:.3g}M", std::min(rate / 1e6, 999.0));
}

// Prints `digits` significant digits, in at most `digits` + 2 characters, without an exponent if
// possible.
std::string loss_figure(double loss, int digits) {
  const double size = std::abs(loss);
  if (!std::isfinite(loss)) return fmt::format("{:.0f}", loss);
  if (size >= std::pow(10, digits + 1) - 0.5) return fmt::format("{:.0e}", loss);
  int before = 1;  // counts the point
  for (double limit = 10; size >= limit; limit *= 10) ++before;
  const int decimals = digits - before + (size < 1 ? 1 : 0) - (loss < 0 ? 1 : 0);
  return fmt::format("{:.{}f}", loss, std::max(decimals, 0));
}

// A field has a fixed width, that of its widest text, so that the layout of the line depends only
// on the terminal and not on growing numbers.
struct Field {
  std::string text;
  size_t width;
};
enum { kRate, kLoss, kAccuracy, kLeft, kWait, kMemory, kFields };
using Fields = std::array<Field, kFields>;

Fields long_fields(const ProgressState& s, double seconds_left) {
  const int decimals = s.memory_bytes >> 30 ? 1 : 0;
  const bool ages = seconds_left >= 1000 * 86400.0;
  return {{{rate_text(s.images_per_second) + " img/s", 11},
           {"loss " + loss_figure(s.loss, 4), 11},
           {fmt::format("acc {:.1f} %", 100 * s.accuracy), 11},
           {"eta " + (ages ? ">999 d" : duration_text(seconds_left)), 13},
           {fmt::format("wait {:.0f} %", 100 * s.wait_share), 10},
           {byte_text(static_cast<int64_t>(s.memory_bytes), decimals), 10}}};
}

Fields short_fields(const ProgressState& s, double seconds_left) {
  const double accuracy = 100 * s.accuracy;
  return {{{rate_text(s.images_per_second) + "/s", 7},
           {"loss " + loss_figure(s.loss, 3), 10},
           {fmt::format("acc {:.{}f}%", accuracy, accuracy < 99.95 ? 1 : 0), 9},
           {"eta " + short_duration_text(seconds_left), 9},
           {fmt::format("wait {:.0f}%", std::min(100 * s.wait_share, 99.0)), 8},
           {short_byte_text(static_cast<int64_t>(s.memory_bytes)), 6}}};
}

constexpr size_t kShortestBar = 8, kLongestBar = 16, kFrame = 3;  // " []"

// The position of the training as text: "epoch  3/15", " 132/391".
struct Position {
  std::string epoch, batches;
  double share = 0;  // completed fraction of the epoch

  explicit Position(const ProgressState& s) {
    // After its last batch, the epoch is still shown, as complete.
    const bool whole = s.batch == 0 && s.epoch >= 1;
    const int64_t batch = whole ? s.batches : s.batch;
    if (s.batches > 0) share = static_cast<double>(batch) / static_cast<double>(s.batches);
    const std::string last = fmt::format("{:.0f}", std::ceil(s.epochs));
    epoch = fmt::format("epoch {:{}.0f}/{:.4g}", std::floor(s.epoch) + (whole ? 0 : 1), last.size(),
                        s.epochs);
    const std::string all = std::to_string(s.batches);
    batches = fmt::format(" {:{}}/{}", batch, all.size(), all);
  }
};

// Returns the position, then the fields that have a text, each in its own width.
std::string joined(const Position& place, size_t bar_width, bool batches, const Fields& fields,
                   size_t gap) {
  std::string text = place.epoch;
  if (bar_width > 0) text += fmt::format(" [{}]", bar(place.share, bar_width));
  if (batches) text += place.batches;
  for (const auto& [field, width] : fields)
    if (!field.empty()) text += fmt::format("{:{}}{:{}}", "", gap, field, width);
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

// Returns everything, in full words; "" if that is too long.
std::string long_text(const Position& place, const Fields& fields, size_t width) {
  constexpr size_t kGap = 2;
  size_t needed = place.epoch.size() + place.batches.size() + kFrame;
  for (const Field& field : fields) needed += kGap + field.width;
  if (needed + kShortestBar > width) return "";
  return joined(place, std::min(width - needed, kLongestBar), true, fields, kGap);
}

// Returns the epoch, then as many short fields as fit, the most important first.
std::string short_text(const Position& place, const Fields& fields, size_t width) {
  constexpr size_t kGap = 1;
  enum { kBar = kFields, kBatches };
  Fields shown{};
  size_t bar_width = 0;
  bool batches = false;
  width -= std::min(width, place.epoch.size());
  for (int next : {int{kLoss}, int{kAccuracy}, int{kLeft}, int{kBar}, int{kRate}, int{kWait},
                   int{kMemory}, int{kBatches}}) {
    const size_t needed = next == kBar       ? kFrame + kShortestBar
                          : next == kBatches ? place.batches.size()
                                             : kGap + fields[static_cast<size_t>(next)].width;
    if (needed > width) break;
    width -= needed;
    if (next == kBar)
      bar_width = kShortestBar;
    else if (next == kBatches)
      batches = true;
    else
      shown[static_cast<size_t>(next)] = fields[static_cast<size_t>(next)];
  }
  if (bar_width > 0) bar_width = std::min(bar_width + width, kLongestBar);
  return joined(place, bar_width, batches, shown, kGap);
}

// Joins parts into lines of at most 80 columns.
std::string folded(const std::vector<std::string>& parts) {
  constexpr size_t kColumns = 80, kIndent = 4;
  std::string text;
  size_t column = 0;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const bool fits = column + 2 + part.size() <= kColumns;
    if (column > 0) text += fits ? "  " : "\n" + std::string(kIndent, ' ');
    column = part.size() + (column == 0 ? 0 : fits ? column + 2 : kIndent);
    text += part;
  }
  return text;
}

std::string figures(const char* phase, double loss, double accuracy) {
  return fmt::format("{} loss {} acc {:.2f} %", phase, loss_text(loss), 100 * accuracy);
}

double mebibytes(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string progress_text(const ProgressState& s, double seconds_left, int columns) {
  const auto width = static_cast<size_t>(std::max(columns, 0));
  const Position place(s);
  std::string text = long_text(place, long_fields(s, seconds_left), width);
  if (text.empty()) text = short_text(place, short_fields(s, seconds_left), width);
  if (text.size() > width) text.resize(width);
  return text;
}

Progress::Progress(std::FILE* out, bool always)
    : out_(out), active_(out != nullptr && (always || can_redraw(out))) {}

void Progress::update(const ProgressState& state) {
  if (!active_) return;
  const Clock::time_point now = Clock::now();
  if (start_ == Clock::time_point() || state.steps_left > first_left_) {
    start_ = now;
    first_left_ = state.steps_left;
  }
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const double seconds = seconds_since(start_);
  const auto done = static_cast<double>(first_left_ - state.steps_left);
  const double left = done > 0 ? seconds / done * static_cast<double>(state.steps_left) : NAN;
  constexpr int kInFiles = 100;
  const int columns = columns_of(out_);
  set_status(out_, progress_text(state, left, (columns > 0 ? columns : kInFiles) - 1));
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  set_status(out_, "");
  drawn_ = false;
}

TrainingConsole::TrainingConsole(const TrainingSetup& setup)
    : setup_(setup),
      held_bytes_(static_cast<size_t>(total_bytes(setup.blocks()))),
      progress_(setup.quiet ? nullptr : stderr) {}

void TrainingConsole::introduce() {
  const Config& config = setup_.config();
  Session& session = setup_.run.session();
  for (const std::string& line : config_notes(setup_.run)) setup_.print(line);
  if (setup_.run.exchange()) setup_.print(processes_line(setup_.run));
  setup_.print(device_line(setup_.run));
  const DataSplit& data = setup_.run.data();
  setup_.print(data.train->describe());
  if (data.validation != nullptr) setup_.print(data.validation->describe());
  if (data.cut) setup_.print(data.test->describe());
  if (!setup_.overview.empty()) setup_.print(setup_.overview);
  const size_t arena = session.arena_bytes();
  const size_t rest =
      static_cast<size_t>(total_bytes(session.regions()) + total_bytes(session.gpu_regions())) -
      arena;
  setup_.print(
      fmt::format("{}: {} parameter tensors, arena {:.1f} MiB, persistent and slots {:.1f} MiB, "
                  "loader {:.1f} MiB, {} threads, {} kernels ({}), {}{}",
                  config.model.name, session.store().parameters().size(), mebibytes(arena),
                  mebibytes(rest), mebibytes(static_cast<size_t>(setup_.loader->bytes())),
                  cpu_context().threads(), cpu_context().kernels_name(), isa_name(current_isa()),
                  config.mode.text(), precision_text(config, setup_.run.device())));
  setup_.print("memory: " + headroom_text(setup_.run, static_cast<int64_t>(held_bytes_)));
  if (!setup_.budget.empty()) setup_.print("memory: " + setup_.budget);
  setup_.print(libraries_text());
  print_swapped();
  const CheckpointFile* beginning = setup_.checkpoints->beginning();
  if (beginning == nullptr) return;
  setup_.print(fmt::format("resumed after step {} of {} (epoch {:.4g}) from {}", setup_.state.step,
                           setup_.total_steps, setup_.epochs(setup_.state.step),
                           beginning->path()));
}

void TrainingConsole::show_progress(const RunningMetrics& since_log, double seconds) {
  if (!progress_.active()) return;
  const TrainingState& state = setup_.state;
  progress_.update({.epoch = setup_.epochs(state.step),
                    .epochs = setup_.epochs(setup_.total_steps),
                    .batch = state.batch,
                    .batches = state.batches,
                    .steps_left = setup_.total_steps - state.step,
                    .loss = since_log.mean_loss(),
                    .accuracy = since_log.accuracy(),
                    .images_per_second = since_log.rate(),
                    .wait_share = setup_.loader->wait_seconds() / std::max(seconds, 1e-9),
                    .memory_bytes = held_bytes_});
}

// Prints the first lines as often as they are logged; later ones less often, to keep log files
// small.
void TrainingConsole::print_steps(double seconds, double wait) {
  using Clock = std::chrono::steady_clock;
  constexpr int kAtOnce = 50;
  constexpr std::chrono::seconds kBetween{10};
  if (progress_.active()) return;
  if (lines_said_ >= kAtOnce && Clock::now() - last_line_ < kBetween) return;
  ++lines_said_;
  last_line_ = Clock::now();
  setup_.print(line("", seconds, wait));
}

std::string TrainingConsole::line(const std::string& evaluated, double seconds, double wait) const {
  const TrainingState& state = setup_.state;
  return folded({fmt::format("epoch {:.4g}/{:.4g}", setup_.epochs(state.step),
                             setup_.epochs(setup_.total_steps)),
                 fmt::format("step {}", state.step),
                 figures("train", state.train_loss, state.train_accuracy), evaluated,
                 fmt::format("lr {:.4g}", state.lr),
                 std::isnan(wait) ? "" : fmt::format("wait {:.0f} %", 100 * wait),
                 fmt::format("{:.0f} s", seconds)});
}

void TrainingConsole::print_swapped() {
  if (swapping_said_) return;
  const std::string text = swap_text(host_memory().swapped);
  if (text.empty()) return;
  swapping_said_ = true;
  setup_.print(text);
}

void TrainingConsole::print_epoch(const char* phase, const Evaluation& tested, double seconds,
                                  double wait) {
  print_swapped();
  setup_.print(line(figures(phase, tested.mean_loss(), tested.accuracy()), seconds, wait));
}

void TrainingConsole::print_memory() const {
  const HostMemory now = host_memory();
  setup_.print(fmt::format(
      "memory: {} {}; the process uses {}, this computer has {} of {} free",
      byte_text(static_cast<int64_t>(held_bytes_)),
      setup_.config().mode == Mode::kEager ? "plus the memory of eager steps" : "as planned",
      byte_text(now.process), byte_text(now.free), byte_text(now.total)));
}

WaitMonitor::WaitMonitor(const Loader& loader) : loader_(loader), end_(now()) {}

WaitMonitor::Mark WaitMonitor::now() const {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(time).count(), loader_.times()};
}

bool WaitMonitor::step() {
  constexpr double kMax = 0.1;  // acceptable fraction of the time of a window spent waiting
  if (++steps_ % kWindow != 0) return false;
  // The first window includes filling the loader; it is checked like any other.
  begin_ = std::exchange(end_, now());
  if (warned_ || share() <= kMax) return false;
  return warned_ = true;
}

double WaitMonitor::share() const {
  double seconds = end_.seconds - begin_.seconds;
  return seconds <= 0 ? 0 : std::clamp((end_.times.wait - begin_.times.wait) / seconds, 0.0, 1.0);
}

std::string WaitMonitor::warning() const {
  struct Stage {
    std::string_view name;
    double seconds;  // in the window, summed over the workers
  };
  const LoaderTimes &a = begin_.times, &b = end_.times;
  const Stage stages[] = {{"reading", b.read - a.read},
                          {"decoding", b.decode - a.decode},
                          {"augmentation", b.augment - a.augment},
                          {"mixing", b.mix - a.mix}};
  double all = 0;
  for (const Stage& stage : stages) all += stage.seconds;
  const auto percent = [&](size_t i) { return 100 * stages[i].seconds / std::max(all, 1e-9); };
  const std::string_view slowest = std::ranges::max_element(stages, {}, &Stage::seconds)->name;
  int workers = loader_.options().workers, cores = available_cores();
  std::string help = workers < cores
                         ? fmt::format("raise data.workers ({} now, {} cores)", workers, cores)
                         : std::string("use fewer or cheaper transforms in data.augment");
  const bool reads = slowest == "reading";
  if (reads || slowest == "decoding")
    help = (workers < cores ? help + ", or " : "") +
           (reads ? "move the files to a faster disk"
                  : "store the pictures decoded: trainer data pack");
  return fmt::format(
      "data: {:.0f} % of the time of the last {} steps was spent waiting for data; the slowest "
      "stage is {} (reading {:.0f} %, decoding {:.0f} %, augmentation {:.0f} %, mixing {:.0f} % of "
      "the workers' time); {}",
      100 * share(), kWindow, slowest, percent(0), percent(1), percent(2), percent(3), help);
}

Report result_report(const Config& config, const TrainResult& result) {
  const bool top5 = result.confusion.classes > 5;
  Table table({{nullptr, "", true},
               {nullptr, "loss"},
               {nullptr, "accuracy"},
               {nullptr, top5 ? "top-5" : nullptr},
               {nullptr, "", true}});
  table.add({"train", loss_text(result.train_loss), percent(result.train_accuracy, 2), "", ""});
  if (result.has_validation)
    table.add({result.best_kept ? "validation, last" : "validation",
               loss_text(result.validation_loss), percent(result.validation_accuracy, 2), "", ""});
  table.add({"test", loss_text(result.test_loss), percent(result.test_accuracy, 2),
             percent(result.test_top5, 2), ""});
  if (result.best_step >= 0) {
    const bool loss = config.checkpoint.best == BestBy::kLoss;
    const std::string remark = fmt::format(
        "on {}, after step {}{}{}", result.has_validation ? "validation" : "test", result.best_step,
        result.has_validation ? "" : "; chosen on the test set because data.validation is unset",
        result.best_kept ? "; weights.safetensors and the test use these weights" : "");
    table.add({"best", loss ? loss_text(result.best_value) : "",
               loss ? Cell("") : percent(result.best_value, 2), "", remark});
  }
  Report report;
  report.add(nullptr, "", std::move(table));
  if (result.skipped > 0)
    report.line(fmt::format("skipped {} of {} batches ({})", result.skipped, result.steps,
                            loss_scaling(config) == LossScaling::off
                                ? "train.non_finite: skip"
                                : "gradients overflowed with the loss scale"));
  if (result.best_step < 0 || result.best_kept || result.best_step == result.steps ||
      config.checkpoint.keep == 0)
    return report;
  const char* const folder = config.run.dir.c_str();
  return report.line(
      fmt::format("`trainer eval --checkpoint=best --run {}` evaluates these weights",
                  shell_command(1, &folder)));
}

}  // namespace tessera
