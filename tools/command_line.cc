#include "tessera/tools/command_line.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// A number that is finite and not negative, and the unit behind it in small letters.
struct Quantity {
  double number;
  std::string unit;
};

std::optional<Quantity> quantity(const std::string& text) {
  Quantity result{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] =
      std::from_chars(text.data(), end, result.number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(result.number) || std::signbit(result.number))
    return std::nullopt;
  for (const char* c = stopped; c != end; ++c)
    if (*c != ' ') result.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  return result;
}

std::optional<int64_t> bytes_of(const std::string& text) {
  const std::optional<Quantity> given = quantity(text);
  if (!given) return std::nullopt;
  std::string unit = given->unit;
  if (unit.size() > 1 && unit.ends_with('b')) unit.pop_back();
  if (unit.size() > 1 && unit.ends_with('i')) unit.pop_back();
  if (unit.empty()) unit = "b";
  const size_t power = std::string_view("bkmgt").find(unit);
  if (unit.size() != 1 || power == std::string_view::npos) return std::nullopt;
  const double bytes = given->number * std::exp2(10.0 * static_cast<double>(power));
  if (bytes >= std::exp2(62) || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace

void require_verb(const CLI::App& app, const std::string& word) {
  std::string known;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->check_name(word)) return;
    known += " " + verb->get_name();
  }
  throw ConfigError(fmt::format("there is no verb '{}'; known are{}", word, known));
}

CLI::Option* add_bytes(CLI::App& app, const std::string& names, int64_t& bytes,
                       const std::string& help) {
  const auto read = [&bytes, names](const std::string& text) {
    const std::optional<int64_t> given = bytes_of(text);
    if (!given)
      throw CLI::ValidationError(
          names, fmt::format("'{}' is no number of bytes; write 4096, 64KiB or 8GiB", text));
    bytes = *given;
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("BYTES");
}

CLI::Option* add_seconds(CLI::App& app, const std::string& names, double& seconds,
                         const std::string& help) {
  const auto read = [&seconds, names](const std::string& text) {
    const std::optional<Quantity> given = quantity(text);
    if (!given || !(given->unit.empty() || given->unit == "s"))
      throw CLI::ValidationError(
          names, fmt::format("'{}' is no number of seconds; write 60, 0.5 or 60s", text));
    seconds = given->number;
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("SECONDS");
}

}  // namespace tessera
