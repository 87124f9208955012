// Messages for the person who runs the program: one line each, on stderr unless redirected.
//
// Nothing logs per step or per op. The environment variable
// TESSERA_LOG=debug|info|warning|error|off sets the first level; without it the level is warning.
// Thread-safe; lines never mix, neither with each other nor with a progress bar
// (runtime/text/status_line.h).
#pragma once

#include <functional>
#include <string_view>

namespace tessera {

enum class LogLevel { debug, info, warning, error, off };

LogLevel log_level();
void set_log_level(LogLevel level);
// "debug" ... "off"; throws ConfigError on any other word.
LogLevel parse_log_level(std::string_view word);

// True when a message of this level would be shown: ask before making an expensive text.
bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view text);

// Where lines go instead of stderr; an empty function restores stderr. Called under a lock: it must
// not log.
using LogSink = std::function<void(LogLevel, std::string_view)>;
void set_log_sink(LogSink sink);

}  // namespace tessera
