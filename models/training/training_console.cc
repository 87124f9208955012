#include "tessera/models/training/training_console.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "tessera/graph/arena.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/number.h"

namespace tessera {
namespace {

// Joins parts to lines of at most 80 columns.
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

TrainingConsole::TrainingConsole(const TrainingSetup& setup)
    : setup_(setup),
      held_bytes_(static_cast<size_t>(total_bytes(setup.blocks()))),
      progress_(setup.quiet ? nullptr : stderr) {}

void TrainingConsole::introduce() {
  const Config& config = setup_.config();
  Session& session = setup_.run.session();
  for (const std::string& line : remarks_on(setup_.run)) setup_.print(line);
  setup_.print(device_line(setup_.run));
  setup_.print(setup_.run.data().train->describe());
  if (setup_.run.data().validation != nullptr)
    setup_.print(setup_.run.data().validation->describe());
  if (!setup_.overview.empty()) setup_.print(setup_.overview);
  const size_t arena = session.arena_bytes();
  const size_t rest =
      static_cast<size_t>(total_bytes(session.regions()) + total_bytes(session.gpu_regions())) -
      arena;
  setup_.print(fmt::format(
      "{}: {} parameter tensors, arena {:.1f} MiB, persistent and slots {:.1f} MiB, "
      "loader {:.1f} MiB, {} threads, {} kernels ({}), {}",
      config.model.name, session.store().parameters().size(), mebibytes(arena), mebibytes(rest),
      mebibytes(static_cast<size_t>(setup_.loader->bytes())), cpu_context().threads(),
      cpu_context().kernels_name(), isa_name(current_isa()), config.mode.text()));
  setup_.print("memory: " + headroom_text(setup_.run, static_cast<int64_t>(held_bytes_)));
  if (!setup_.budget.empty()) setup_.print("memory: " + setup_.budget);
  setup_.print(libraries_text());
  say_swapped();
  const CheckpointFile* beginning = setup_.checkpoints->beginning();
  if (beginning == nullptr) return;
  setup_.print(fmt::format("resumed after step {} of {} (epoch {:.4g}) from {}", setup_.state.step,
                           setup_.total_steps, setup_.epochs(setup_.state.step),
                           beginning->path()));
}

void TrainingConsole::show_progress(const Tally& since_log, double seconds) {
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

// The first lines come as often as they are logged; a long training does not fill a file with them.
void TrainingConsole::say_steps(double seconds, double wait) {
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

void TrainingConsole::say_swapped() {
  if (swapping_said_) return;
  const std::string text = swap_text(host_memory().swapped);
  if (text.empty()) return;
  swapping_said_ = true;
  setup_.print(text);
}

void TrainingConsole::say_epoch(const char* phase, const Evaluation& tested, double seconds,
                                double wait) {
  say_swapped();
  setup_.print(line(figures(phase, tested.mean_loss(), tested.accuracy()), seconds, wait));
}

void TrainingConsole::say_memory() const {
  const HostMemory now = host_memory();
  setup_.print(fmt::format(
      "memory: {} {}; the process has {} in use, the machine {} of {} free",
      byte_text(static_cast<int64_t>(held_bytes_)),
      setup_.config().mode == Mode::kEager ? "besides what eager steps took" : "as planned",
      byte_text(now.process), byte_text(now.free), byte_text(now.total)));
}

}  // namespace tessera
