#include "tessera/models/progress.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tessera {
namespace {

int columns_of(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

std::string bar(double share, int width) {
  const int done = std::clamp(static_cast<int>(share * width), 0, width);
  std::string text(static_cast<size_t>(done), '=');
  if (done < width) text += '>';
  text.resize(static_cast<size_t>(width), ' ');
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e12));
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 0) return fmt::format("{} d {} h", days, hours % 24);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes % 60, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string progress_text(const ProgressState& s, double seconds_left, int columns) {
  // After its last batch an epoch is still the one to show, whole.
  const bool whole = s.batch == 0 && s.epoch >= 1;
  const int64_t batch = whole ? s.batches : s.batch;
  const double share = s.batches > 0 ? static_cast<double>(batch) / static_cast<double>(s.batches) : 0;
  const std::string parts[] = {
      fmt::format("epoch {:.0f}/{:.4g} [{}] {}/{}", std::floor(s.epoch) + (whole ? 0 : 1), s.epochs,
                  bar(share, 16), batch, s.batches),
      fmt::format("{:.0f} images/s", s.images_per_second),
      fmt::format("loss {:.4f}", s.loss),
      fmt::format("accuracy {:.2f} %", 100 * s.accuracy),
      fmt::format("{} left", duration_text(seconds_left)),
      fmt::format("wait {:.0f} %", 100 * s.wait_share),
      fmt::format("{:.0f} MiB", static_cast<double>(s.memory_bytes) / (1 << 20)),
  };
  std::string text;
  for (const std::string& part : parts) {  // what has no room at the end is left out whole
    const size_t needed = text.size() + part.size() + (text.empty() ? 0 : 2);
    if (needed > static_cast<size_t>(std::max(columns, 0))) break;
    text += (text.empty() ? "" : "  ") + part;
  }
  return text;
}

Progress::Progress(std::FILE* out, bool always)
    : out_(out), active_(always || isatty(fileno(out)) != 0) {}

void Progress::update(const ProgressState& state) {
  if (!active_) return;
  const Clock::time_point now = Clock::now();
  if (start_ == Clock::time_point() || state.steps_left > first_left_) {
    start_ = now;
    first_left_ = state.steps_left;
  }
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto done = static_cast<double>(first_left_ - state.steps_left);
  const double left = done > 0 ? seconds / done * static_cast<double>(state.steps_left) : NAN;
  const std::string text = progress_text(state, left, columns_of(out_) - 1);
  fmt::print(out_, "\r\x1b[K{}", text);
  std::fflush(out_);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(out_, "\r\x1b[K");
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace tessera
