#include "tessera/runtime/text/clock.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace tessera {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e12));
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 99) return fmt::format("{} d", days);
  if (days > 0) return fmt::format("{} d {} h", days, hours % 24);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes % 60, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string short_duration_text(double seconds) {
  const double hours = seconds / 3600, days = hours / 24;
  if (!std::isfinite(seconds) || seconds < 3600) return duration_text(seconds);
  if (hours < 10) {
    const auto minutes = static_cast<int64_t>(seconds / 60);
    return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  }
  if (days < 1) return fmt::format("{:.1f}h", hours);
  if (days < 10) return fmt::format("{:.1f}d", days);
  return days < 1000 ? fmt::format("{:.0f}d", days) : ">999d";
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string utc_text(std::time_t time) {
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace tessera
