#include "tessera/tools/output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/terminal.h"

namespace tessera {
namespace {

int g_output_error = 0;  // errno of the first failed write

void keep(bool written) {
  if (!written && g_output_error == 0) g_output_error = errno;
}

}  // namespace

void write_out(std::string_view text) {
  keep(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

void begin_program() { std::signal(SIGXFSZ, SIG_IGN); }

void flush_out() { keep(std::fflush(stdout) == 0); }

void print_line(const std::string& line) {
  write_out(wrapped(line, columns_of(stdout)) + "\n");
  flush_out();
}

int print_exit(const CLI::App& app, const CLI::Error& error) {
  std::ostringstream out, errors;
  const int code = app.exit(error, out, errors);
  write_out(wrapped(out.str(), columns_of(stdout), true));
  flush_out();
  const std::string text = wrapped(errors.str(), columns_of(stderr));
  std::fwrite(text.data(), 1, text.size(), stderr);
  return code;
}

void print_error(const std::string& line) {
  const std::string text = wrapped(line, columns_of(stderr)) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string take_output_fault() {
  flush_out();
  if (g_output_error == 0 && std::ferror(stdout) == 0) return "";
  const int error = std::exchange(g_output_error, 0);
  std::clearerr(stdout);
  return fmt::format("cannot write to standard output: {}",
                     std::strerror(error != 0 ? error : EIO));
}

int end_program(const char* program, int code) {
  const std::string fault = take_output_fault();
  if (fault.empty()) return code;
  fmt::print(stderr, "{}: {}\n", program, fault);
  return code == 0 ? 1 : code;
}

int end_program(const char* program, const std::exception& error) {
  // The library prints with fmt, which throws if it cannot write.
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && std::ferror(stdout) != 0 && g_output_error == 0)
    g_output_error = system->code().value();
  const std::string fault = take_output_fault();
  fmt::print(stderr, "{}: {}\n", program, fault.empty() ? error.what() : fault);
  return 1;
}

void print_report(const Report& report, bool as_json, int indent) {
  write_out(as_json ? report.json().text(indent) + "\n"
                    : wrapped(report.text(), columns_of(stdout), true));
  flush_out();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || in.bad()) throw ConfigError(fmt::format("{}: cannot be read", path));
  return text.str();
}

void write_file(const std::string& path, std::string_view text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (file != nullptr && std::fclose(file) != 0 && written) {
    written = false;
    error = errno;
  }
  if (!written)
    throw ConfigError(fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

void write_output(const std::string& path, std::string_view text) {
  if (path.empty() || path == "-") {
    write_out(text);
  } else {
    write_file(path, text);
  }
}

}  // namespace tessera
