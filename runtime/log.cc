#include "tessera/runtime/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/terminal.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 5> kWords{"debug", "info", "warning", "error", "off"};

std::optional<LogLevel> level_of(std::string_view word) {
  const auto found = std::ranges::find(kWords, word);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kWords.begin());
}

std::atomic<LogLevel>& level_now() {
  static std::atomic<LogLevel> level = [] {
    const char* const word = std::getenv("TESSERA_LOG");
    return level_of(word == nullptr ? "" : word).value_or(LogLevel::warning);
  }();
  return level;
}

std::mutex sink_mutex;
LogSink& sink_now() {
  static auto* sink = new LogSink;  // never destroyed: a worker may log while the process ends
  return *sink;
}

}  // namespace

LogLevel log_level() { return level_now().load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) { level_now().store(level, std::memory_order_relaxed); }

LogLevel parse_log_level(std::string_view word) {
  if (const std::optional<LogLevel> level = level_of(word)) return *level;
  throw ConfigError(
      fmt::format("log: '{}' is not a level; write debug, info, warning, error or off", word));
}

bool log_enabled(LogLevel level) { return level != LogLevel::off && level >= log_level(); }

void log(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  const WithoutStatus above;
  std::lock_guard lock(sink_mutex);
  if (sink_now()) {
    sink_now()(level, text);
    return;
  }
  std::string line = fmt::format("tessera {}: {}", kWords[static_cast<size_t>(level)], text);
  line = wrapped(line, columns_of(stderr)) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void set_log_sink(LogSink sink) {
  std::lock_guard lock(sink_mutex);
  sink_now() = std::move(sink);
}

}  // namespace tessera
