#include "tessera/tools/command_line.h"

#include <algorithm>
#include <cmath>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/number.h"
#include "tessera/runtime/text/spelling.h"

namespace tessera {

CLI::App* add_command(CLI::App& app, Command& command, const std::string& name,
                      const std::string& help, Command run) {
  CLI::App* sub = app.add_subcommand(name, help);
  sub->callback([&command, run = std::move(run)] { command = run; });
  return sub;
}

void exclude(CLI::App& app, const std::string& option, const std::vector<std::string>& others) {
  for (const std::string& other : others) app.get_option(option)->excludes(app.get_option(other));
}

void add_library(CLI::App& app, const std::string& option, const std::string& help,
                 const std::function<void(std::string)>& load) {
  app.add_option(option, help)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->each(load);
}

void require_command(const CLI::App& app, const std::string& word) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(word)) return;
    known += " " + command->get_name();
  }
  throw ConfigError(fmt::format("unknown command '{}'; the commands are{}", word, known));
}

void require_known_options(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<const CLI::App*> path{&app};
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> commands = path.back()->get_subcommands(
        [&](const CLI::App* command) { return command->check_name(word); });
    if (commands.empty()) break;
    path.push_back(commands.front());
  }
  std::vector<std::string> known;
  for (const CLI::App* command : path)
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames())
        if (std::find(known.begin(), known.end(), "--" + name) == known.end())
          known.push_back("--" + name);
  for (const std::string& word : words) {
    if (word == "--") return;
    const std::string name = word.substr(0, word.find('='));
    if (word.starts_with("--") && std::find(known.begin(), known.end(), name) == known.end())
      throw ConfigError(
          fmt::format("{}: the option {}", path.back()->get_name(), unknown_name(name, known)));
  }
}

CLI::Option* add_bytes(CLI::App& app, const std::string& names, int64_t& bytes,
                       const std::string& help) {
  const auto read = [&bytes, names](const std::string& text) {
    const bool has_unit = !split_unit(text).unit.empty();
    const std::string whole = has_unit ? text : text + "B";
    const ParsedBytes given = parse_bytes(whole);
    if (!given.bytes)
      throw CLI::ValidationError(
          names,
          fmt::format("'{}' is not a number of bytes; {}", text,
                      given.instead.empty()
                          ? "write 4096, 64KiB or 8GiB"
                          : fmt::format("write '{}': units are powers of 1024", given.instead)));
    bytes = *given.bytes;
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("BYTES");
}

CLI::Option* add_percent(CLI::App& app, const std::string& names, double& part,
                         const std::string& help) {
  const auto read = [&part, names](const std::string& text) {
    double number = 0;
    if (!text.ends_with('%') ||
        parse_number(std::string_view(text).substr(0, text.size() - 1), number) != std::errc() ||
        std::signbit(number))
      throw CLI::ValidationError(names, fmt::format("'{}' is not a percentage; write 5%", text));
    part = number / 100;
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("PERCENT");
}

CLI::Option* add_seconds(CLI::App& app, const std::string& names, double& seconds,
                         const std::string& help) {
  const auto read = [&seconds, names](const std::string& text) {
    const Quantity given = split_unit(text);
    double number = 0;
    if (parse_number(given.number, number) != std::errc() || std::signbit(number) ||
        !(given.unit.empty() || given.unit == "s"))
      throw CLI::ValidationError(
          names, fmt::format("'{}' is not a number of seconds; write 60, 0.5 or 60s", text));
    seconds = number;
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("SECONDS");
}

}  // namespace tessera
