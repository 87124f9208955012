// log(): messages to the user, one line each, on stderr unless redirected.
//
// Nothing logs per step or per op. The environment variable
// TESSERA_LOG=debug|info|warning|error|off sets the initial level; the default is warning.
// Thread-safe; lines never mix with each other or with a progress bar (runtime/text/terminal.h).
#pragma once

#include <functional>
#include <string_view>

namespace tessera {

enum class LogLevel { debug, info, warning, error, off };

LogLevel log_level();
void set_log_level(LogLevel level);
// Parses "debug" ... "off". Throws ConfigError for any other word.
LogLevel parse_log_level(std::string_view word);

// Returns true if messages of this level are shown. Call it before building an expensive text.
bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view text);

// Receives all lines instead of stderr; an empty function restores stderr. Called under a lock, so
// it must not log.
using LogSink = std::function<void(LogLevel, std::string_view)>;
void set_log_sink(LogSink sink);

}  // namespace tessera
