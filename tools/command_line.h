// Command-line helpers of trainer and planner.
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

// Runs after the command line is parsed; returns the exit code, or throws Error.
using Command = std::function<int()>;

// Adds a command, which runs `run`.
CLI::App* add_command(CLI::App& app, Command& command, const std::string& name,
                      const std::string& help, Command run);

// Refuses `option` together with any of `others`.
void exclude(CLI::App& app, const std::string& option, const std::vector<std::string>& others);

// Adds an option that may be repeated, each time with the path of a shared library to load.
void add_library(CLI::App& app, const std::string& option, const std::string& help,
                 const std::function<void(std::string)>& load);

// Throws ConfigError, with the option that was probably meant, if a word after the commands is an
// option that neither they nor the program have.
void require_known_options(const CLI::App& app, const std::vector<std::string>& words);

// Throws ConfigError, with the list of commands, unless the word is a command.
void require_command(const CLI::App& app, const std::string& word);

// Add options for a number of bytes (in the form of parse_bytes() in runtime/text/bytes.h, or
// without a unit: "64KiB", "4096"), of seconds ("60", "0.5s") and for a fraction ("5%" is 0.05).
// The options refuse a number that is negative, invalid or too large.
CLI::Option* add_bytes(CLI::App& app, const std::string& names, int64_t& bytes,
                       const std::string& help);
CLI::Option* add_seconds(CLI::App& app, const std::string& names, double& seconds,
                         const std::string& help);
CLI::Option* add_percent(CLI::App& app, const std::string& names, double& part,
                         const std::string& help);

}  // namespace tessera
