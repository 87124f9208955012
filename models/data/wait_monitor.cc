#include "tessera/models/data/wait_monitor.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

WaitMonitor::WaitMonitor(const Loader& loader, WaitLimits limits)
    : loader_(loader), limits_(limits) {
  if (limits.window < 1 || !(limits.share >= 0))
    throw ConfigError(fmt::format("waiting for data: a window of {} steps and a limit of {}",
                                  limits.window, limits.share));
  begin_ = end_ = running_ = now();
}

WaitMonitor::Mark WaitMonitor::now() const {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(time).count(), loader_.times()};
}

bool WaitMonitor::step() {
  end_ = now();
  ++steps_;
  if (!whole_) shown_ = steps_;
  if (steps_ % limits_.window != 0) return false;
  begin_ = running_;
  running_ = end_;
  shown_ = limits_.window;
  // The first window has the filling of the loader in it; it is looked at like any other.
  whole_ = true;
  if (warned_ || share() <= limits_.share) return false;
  warned_ = true;
  return true;
}

double WaitMonitor::share() const {
  double seconds = end_.seconds - begin_.seconds;
  return seconds <= 0 ? 0 : std::clamp((end_.times.wait - begin_.times.wait) / seconds, 0.0, 1.0);
}

WaitMonitor::Stage WaitMonitor::slowest() const {
  const LoaderTimes &a = begin_.times, &b = end_.times;
  const Stage stages[] = {{"reading", b.read - a.read},
                          {"decoding", b.decode - a.decode},
                          {"augmentation", b.augment - a.augment},
                          {"mixing", b.mix - a.mix}};
  return *std::max_element(std::begin(stages), std::end(stages),
                           [](const Stage& x, const Stage& y) { return x.seconds < y.seconds; });
}

std::string WaitMonitor::warning() const {
  const LoaderTimes &a = begin_.times, &b = end_.times;
  const double read = b.read - a.read, decode = b.decode - a.decode,
               augment = b.augment - a.augment, mix = b.mix - a.mix,
               all = std::max(read + decode + augment + mix, 1e-9);
  const Stage stage = slowest();
  int workers = loader_.options().workers, cores = available_cores();
  std::string help = workers < cores
                         ? fmt::format("raise data.workers ({} now, {} cores)", workers, cores)
                         : std::string("give the workers fewer or cheaper steps in data.augment");
  const bool reads = stage.name == std::string_view("reading");
  if (reads || stage.name == std::string_view("decoding"))
    help = (workers < cores ? help + ", or " : "") +
           (reads ? "put the files on a faster disk"
                  : "pack the pictures once, decoded: trainer data pack");
  return fmt::format(
      "data: {:.0f} % of the last {} steps was spent waiting for data; the slowest stage is {} "
      "(reading {:.0f} %, decoding {:.0f} %, augmentation {:.0f} %, mixing {:.0f} % of the "
      "workers' "
      "time); {}",
      100 * share(), shown_, stage.name, 100 * read / all, 100 * decode / all, 100 * augment / all,
      100 * mix / all, help);
}

}  // namespace tessera
