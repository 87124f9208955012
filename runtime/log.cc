#include "tessera/runtime/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/status_line.h"
#include "tessera/runtime/text/terminal.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 5> kWords{"debug", "info", "warning", "error", "off"};

LogLevel first_level() {
  const char* word = std::getenv("TESSERA_LOG");
  for (size_t i = 0; word != nullptr && i < kWords.size(); ++i)
    if (kWords[i] == word) return static_cast<LogLevel>(i);
  return LogLevel::warning;
}

std::atomic<LogLevel>& level_now() {
  static std::atomic<LogLevel> level = first_level();
  return level;
}

std::mutex& sink_mutex() {
  static std::mutex mutex;
  return mutex;
}

LogSink& sink_now() {
  static auto* sink = new LogSink;  // never destroyed: a worker may log while the process ends
  return *sink;
}

}  // namespace

LogLevel log_level() { return level_now().load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) { level_now().store(level, std::memory_order_relaxed); }

LogLevel parse_log_level(std::string_view word) {
  for (size_t i = 0; i < kWords.size(); ++i)
    if (kWords[i] == word) return static_cast<LogLevel>(i);
  throw ConfigError(
      fmt::format("log: '{}' is not a level; write debug, info, warning, error or off", word));
}

bool log_enabled(LogLevel level) { return level != LogLevel::off && level >= log_level(); }

void log(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  const WithoutStatus above;
  std::lock_guard lock(sink_mutex());
  if (sink_now()) {
    sink_now()(level, text);
    return;
  }
  std::string line = fmt::format("tessera {}: {}", kWords[static_cast<size_t>(level)], text);
  line = wrapped(line, columns_of(stderr)) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void set_log_sink(LogSink sink) {
  std::lock_guard lock(sink_mutex());
  sink_now() = std::move(sink);
}

}  // namespace tessera
