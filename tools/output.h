// Output of trainer and planner: standard output, and files named on the command line.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "tessera/runtime/text/report.h"

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace tessera {

// Prepares the process; main() calls it first. A file that exceeds the limit of the process (ulimit
// -f) then causes an error, like a full disk, instead of a fatal signal.
void begin_program();

// Writes to standard output. If that fails, the program continues; take_output_fault() returns the
// error.
void write_out(std::string_view text);

// Writes a whole line and flushes it; wraps it to the width of a terminal.
void print_line(const std::string& line);

// Prints the --help or error that CLI11 ended with; returns its exit code.
int print_exit(const CLI::App& app, const CLI::Error& error);

// Prints nothing, for --quiet.
inline void print_nothing(const std::string&) {}

// Writes a wrapped line to standard error; ignores errors.
void print_error(const std::string& line);

// Flushes standard output; call it before later text goes to standard error.
void flush_out();

// Returns "cannot write to standard output: No space left on device", once, if any output was lost;
// else "".
std::string take_output_fault();

// Returns the exit code for main(): `code`, or 1 with a message if it is 0 and output was lost.
int end_program(const char* program, int code);

// Returns the exit code after an exception that is not an Error: 1. Prints a message.
int end_program(const char* program, const std::exception& error);

// Prints a report as text, wrapped to the width of a terminal, or as JSON, each level indented by
// `indent` spaces (Json::text()).
void print_report(const Report& report, bool as_json, int indent = 1);

// Throws ConfigError if the file cannot be read.
std::string read_file(const std::string& path);

// Writes the file; "-" or no path is standard output. Throws ConfigError.
void write_output(const std::string& path, std::string_view text);

// Throws ConfigError with the reason.
void write_file(const std::string& path, std::string_view text);

}  // namespace tessera
