#include "tessera/models/progress.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tessera/runtime/byte_text.h"
#include "tessera/runtime/status_line.h"

namespace tessera {
namespace {

int columns_of(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

std::string bar(double share, size_t width) {
  const auto done = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  std::string text(done, '=');
  if (done < width) text += '>';
  text.resize(width, ' ');
  return text;
}

// In at most five characters up to a thousand million.
std::string rate_text(double rate) {
  if (rate < 9.95) return fmt::format("{:.1f}", rate);
  if (rate < 9999.5) return fmt::format("{:.0f}", rate);
  if (rate < 99.95e3) return fmt::format("{:.1f}k", rate / 1e3);
  if (rate < 999.5e3) return fmt::format("{:.0f}k", rate / 1e3);
  return fmt::format("{:.3g}M", rate / 1e6);
}

// With four digits that count, and no exponent where none is needed.
std::string loss_text(double loss) {
  const double size = std::abs(loss);
  if (!(size < 1000)) return fmt::format("{:.3g}", loss);
  return fmt::format("{:.{}f}", loss, size < 1 ? 4 : size < 10 ? 3 : size < 100 ? 2 : 1);
}

// Where training is, as far as there is room: "epoch 3/15 [==>   ] 132/391", at least the epoch.
std::string place_text(const ProgressState& s, size_t room) {
  constexpr size_t kShortestBar = 4, kLongestBar = 16;
  // After its last batch an epoch is still the one to show, whole.
  const bool whole = s.batch == 0 && s.epoch >= 1;
  const int64_t batch = whole ? s.batches : s.batch;
  const double share =
      s.batches > 0 ? static_cast<double>(batch) / static_cast<double>(s.batches) : 0;
  const std::string epoch =
      fmt::format("epoch {:.0f}/{:.4g}", std::floor(s.epoch) + (whole ? 0 : 1), s.epochs);
  const std::string batches = fmt::format(" {}/{}", batch, s.batches);
  const size_t words = epoch.size() + batches.size(), frame = 3;  // " []"
  if (words + frame + kShortestBar <= room)
    return fmt::format("{} [{}]{}", epoch, bar(share, std::min(room - words - frame, kLongestBar)),
                       batches);
  if (words <= room) return epoch + batches;
  return epoch.size() <= room ? epoch : "";
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e12));
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 99) return fmt::format("{} d", days);
  if (days > 0) return fmt::format("{} d {} h", days, hours % 24);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes % 60, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string progress_text(const ProgressState& s, double seconds_left, int columns) {
  constexpr std::string_view kGap = "  ";
  struct Part {
    std::string text;
    int rank;  // the last ones are left out first
    bool shown = false;
  };
  Part parts[] = {
      {rate_text(s.images_per_second) + " img/s", 3},
      {"loss " + loss_text(s.loss), 0},
      {fmt::format("acc {:.1f} %", 100 * s.accuracy), 1},
      {"eta " + duration_text(seconds_left), 2},
      {fmt::format("wait {:.0f} %", 100 * s.wait_share), 4},
      {byte_text(static_cast<int64_t>(s.memory_bytes), s.memory_bytes >> 30 ? 1 : 0), 5},
  };
  size_t room = static_cast<size_t>(std::max(columns, 0)) + kGap.size();
  for (int rank = 0; rank < static_cast<int>(std::size(parts)); ++rank) {
    Part& next = *std::find_if(std::begin(parts), std::end(parts),
                               [&](const Part& part) { return part.rank == rank; });
    if (next.text.size() + kGap.size() > room) break;
    next.shown = true;
    room -= next.text.size() + kGap.size();
  }
  std::string text = place_text(s, room > kGap.size() ? room - kGap.size() : 0);
  for (const Part& part : parts) {
    if (!part.shown) continue;
    if (!text.empty()) text += kGap;
    text += part.text;
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
  set_status(out_, progress_text(state, left, columns_of(out_) - 1));
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  set_status(out_, "");
  drawn_ = false;
}

}  // namespace tessera
