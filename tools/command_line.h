// What trainer and planner share in reading their command lines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tessera {

// What to do once the command line is read; returns the exit code, or throws Error.
using Command = std::function<int()>;

// Throws ConfigError, with the option that was probably meant, where a word that follows the
// commands is an option that neither they nor the program have.
void require_known_options(const CLI::App& app, const std::vector<std::string>& words);

// Throws ConfigError naming the commands there are, unless the word is one of them.
void require_command(const CLI::App& app, const std::string& word);

// Options for a number of bytes (as parse_bytes() in runtime/text/bytes.h, or without a unit:
// "64KiB", "4096") and of seconds ("60", "0.5s"). A number that is negative, no number or too large
// is refused. A part as "5%", which is 0.05.
CLI::Option* add_bytes(CLI::App& app, const std::string& names, int64_t& bytes,
                       const std::string& help);
CLI::Option* add_seconds(CLI::App& app, const std::string& names, double& seconds,
                         const std::string& help);
CLI::Option* add_percent(CLI::App& app, const std::string& names, double& part,
                         const std::string& help);

}  // namespace tessera
