// What trainer and planner write: standard output, and files named on the command line.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace tessera {

// What main() does first: a file that grows beyond the limit of the process (ulimit -f) is an error
// like a full disk, and no end by a signal.
void begin_program();

// To standard output. Where that cannot be, the program goes on and the fault is kept for
// take_output_fault().
void write_out(std::string_view text);

// A whole line, to be seen at once; on a terminal broken where it is wider than that.
void say(const std::string& line);

// For what --quiet leaves out.
inline void print_nothing(const std::string&) {}

// The same to standard error, where nothing is left to be done if that fails.
void complain(const std::string& line);

// Before something is written to standard error that belongs behind it.
void flush_out();

// "cannot write to standard output: No space left on device", once, where anything written so far
// was lost; "" otherwise.
std::string take_output_fault();

// What main() returns: the code, or 1 with a message where it is 0 and output was lost.
int end_program(const char* program, int code);

// The same where an exception that is no Error ended it: 1.
int end_program(const char* program, const std::exception& error);

// Throws ConfigError where it cannot be read.
std::string read_file(const std::string& path);

// Throws ConfigError with the reason.
void write_file(const std::string& path, std::string_view text);

}  // namespace tessera
