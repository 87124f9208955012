#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/yaml_tree.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/number.h"
#include "tessera/runtime/text/spelling.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

constexpr int64_t kMaxValidation = int64_t{1} << 32;
constexpr size_t kShown = 64;  // characters of a wrong value that an error repeats

// The reason why a string is invalid: a remark for the error, and the probably intended text.
struct ValueProblem {
  std::string remark, instead;
};
using MaybeProblem = std::optional<ValueProblem>;

bool in_range(double value, const KeyRule& rule) {
  if (rule.above_min ? value <= rule.min : value < rule.min) return false;
  return rule.below_max ? value < rule.max : value <= rule.max;
}

// Returns the problem of a string that should be a number.
ValueProblem number_problem(std::string_view text, bool whole) {
  std::string_view digits = text.substr(text.starts_with('-') || text.starts_with('+') ? 1 : 0);
  const std::string sign(text.substr(0, text.size() - digits.size()));
  double value = 0;
  const std::errc error = parse_number(text, value);
  if (error == std::errc::result_out_of_range) return {"which a double cannot represent", ""};
  if (error == std::errc()) {
    const std::string digits_only = fmt::format("{:.0f}", value);
    const bool better = whole && value == std::floor(value) && std::abs(value) < 1e15;
    return {"", better && digits_only != text ? digits_only : ""};
  }
  if (digits.empty()) return {};
  if (text[0] == '+' && parse_number(digits, value) == std::errc())
    return {"", std::string(digits)};
  uint64_t bits = 0;
  const std::string_view after = digits.substr(std::min<size_t>(2, digits.size()));
  for (const auto& [prefix, base] : {std::pair("0x", 16), std::pair("0o", 8), std::pair("0b", 2)}) {
    if (!lower(digits).starts_with(prefix)) continue;
    const auto [end, bad] = std::from_chars(after.data(), after.data() + after.size(), bits, base);
    if (bad == std::errc() && end == after.data() + after.size() && !after.empty())
      return {"write numbers in decimal", sign + std::to_string(bits)};
  }
  const std::string word = lower(digits);
  if (word == ".inf" || word == ".nan" || word == "inf" || word == "nan" || word == "infinity")
    return {"numbers must be finite", ""};
  std::string plain;
  std::copy_if(digits.begin(), digits.end(), std::back_inserter(plain),
               [](char c) { return c != '_'; });
  if (plain.size() < digits.size() && parse_number(plain, value) == std::errc())
    return {"", sign + plain};
  size_t first = std::min(digits.find_first_not_of('0'), digits.size());
  if (first > 0 && first < digits.size() && digits[first] == '.') --first;
  if (first > 0 && parse_number(digits.substr(first), value) == std::errc())
    return {"some YAML parsers read a leading 0 as octal, others as decimal",
            sign + std::string(digits.substr(first))};
  return {};
}

MaybeProblem parse(std::string_view text, const KeyRule&, bool& value) {
  if (text == "true" || text == "false") {
    value = text == "true";
    return {};
  }
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "on" || word == "1" || word == "y")
    return ValueProblem{"", "true"};
  if (word == "false" || word == "no" || word == "off" || word == "0" || word == "n")
    return ValueProblem{"", "false"};
  return ValueProblem{"", nearest_spelling(text, {"true", "false"})};
}

template <class T>
requires std::is_arithmetic_v<T> MaybeProblem parse(std::string_view text, const KeyRule& rule,
                                                    T& value) {
  T number{};
  const std::errc error = parse_number(text, number);
  if constexpr (std::is_integral_v<T>)
    if (error == std::errc::result_out_of_range && !text.starts_with('-') &&
        !std::isfinite(rule.max))
      return ValueProblem{fmt::format("the largest is {}", std::numeric_limits<T>::max()), ""};
  if (error != std::errc()) return number_problem(text, std::is_integral_v<T>);
  if (!in_range(static_cast<double>(number), rule)) return ValueProblem{};
  value = number;
  return {};
}

MaybeProblem parse(std::string_view text, const KeyRule& rule, Duration& value) {
  const Quantity quantity = split_unit(text);
  Duration given;
  if (parse_number(quantity.number, given.count) != std::errc())
    return number_problem(quantity.number, false);
  const std::string number(quantity.number), unit = lower(quantity.unit);
  if (text == number + "ep")
    given.unit = Duration::Unit::kEpochs;
  else if (rule.time && (text == number + "min" || text == number + "h"))
    given.unit = unit == "h" ? Duration::Unit::kHours : Duration::Unit::kMinutes;
  else if (rule.time && (unit.starts_with('m') || unit.starts_with('h')))
    return ValueProblem{"", number + (unit[0] == 'm' ? "min" : "h")};
  else if (unit.empty() && given.count != 0)
    return ValueProblem{fmt::format("which has no unit; write {0}ep or {0}st", number), ""};
  else if (text != number + "st" && text != "0")
    return ValueProblem{"", unit.starts_with('e')   ? number + "ep"
                            : unit.starts_with('s') ? number + "st"
                                                    : ""};
  if (given.unit == Duration::Unit::kSteps && given.count != std::floor(given.count))
    return ValueProblem{"the number of steps must be an integer", ""};
  const bool is_steps = given.unit == Duration::Unit::kSteps;
  if (given.count > (is_steps ? kMaxSteps : kMaxEpochs))
    return ValueProblem{
        fmt::format("which is more than {:.0f}{}", is_steps ? kMaxSteps : kMaxEpochs,
                    is_steps ? "st" : text.substr(number.size())),
        ""};
  if (!in_range(given.count, rule)) return ValueProblem{};
  value = given;
  return {};
}

MaybeProblem parse(std::string_view text, const KeyRule& rule, ByteSize& value) {
  if (rule.automatic && text == "auto") {
    value = ByteSize::automatic();
    return {};
  }
  const ParsedBytes parsed = parse_bytes(text);
  if (!parsed.is_number) return number_problem(parsed.number, false);
  if (!parsed.bytes) return ValueProblem{parsed.remark, parsed.instead};
  if (!in_range(static_cast<double>(*parsed.bytes), rule)) return ValueProblem{};
  value.bytes = *parsed.bytes;
  return {};
}

MaybeProblem parse(std::string_view text, const KeyRule& rule, Workers& value) {
  if (text == "auto") {
    value = Workers::automatic();
    return {};
  }
  int count = 0;
  MaybeProblem problem = parse(text, rule, count);
  if (!problem) value = count;
  return problem;
}

// Parses "10%", 5000 or a folder, whose name does not begin like a number.
MaybeProblem parse(std::string_view text, const KeyRule&, ValidationSource& value) {
  if (text == "none") {
    value = {};
    return {};
  }
  const bool is_path = text.find('/') != text.npos;
  const bool is_number =
      !text.empty() && !is_path && std::string_view("0123456789.+-").find(text[0]) != text.npos;
  ValidationSource given;
  if (!is_number) {
    if (text.empty()) return ValueProblem{};
    given.folder = text;
  } else if (text.ends_with('%')) {
    const std::string_view number = text.substr(0, text.size() - 1);
    if (parse_number(number, given.percent) != std::errc()) return number_problem(number, false);
    if (!(given.percent > 0 && given.percent < 100))
      return ValueProblem{"a percentage must be above 0% and below 100%", ""};
  } else if (double part = 0; parse_number(text, part) == std::errc() && part > 0 && part < 1) {
    return ValueProblem{"write a fraction in percent", fmt::format("{:.4g}%", 100 * part)};
  } else if (parse_number(text, given.count) != std::errc()) {
    return number_problem(text, true);
  } else if (given.count < 1 || given.count > kMaxValidation) {
    return ValueProblem{};
  }
  value = given;
  return {};
}

class Reader {
 public:
  Reader(const ConfigKey& key, Diagnostics& errors) : key_(key), errors_(errors) {}

  template <class T>
  void read(const YamlNode& node, T& value) {
    // JSON, which is also accepted, writes values with units as strings.
    constexpr bool kMayBeQuoted = std::is_same_v<T, Duration> || std::is_same_v<T, ByteSize>;
    if (!node.is_plain() && !(kMayBeQuoted && node.is_scalar()))
      return refuse(node, node.quoted ? "remove the quotes" : "");
    MaybeProblem problem = parse(node.text, key_.rule, value);
    if (!problem) return;
    if constexpr (std::is_arithmetic_v<T>)
      if (const ValueProblem unit = unit_problem(node.text, value); !unit.remark.empty())
        problem = unit;
    refuse(node, problem->remark, problem->instead);
  }

  void read(const YamlNode& node, std::string& value) {
    if (!node.is_scalar()) return refuse(node);
    for (size_t at = 0; at < node.text.size(); at += utf8_at(node.text, at).bytes)
      if (utf8_at(node.text, at).is_control() || utf8_at(node.text, at).code < 0)
        return refuse(node, "which has a control character");
    const std::vector<std::string>& names = key_.rule.names;
    if (!names.empty() && std::ranges::count(names, node.text) == 0) {
      errors_.add(node.range,
                  fmt::format("{}: '{}' is not one of {}", key_.path, shown(node.text),
                              fmt::join(names, ", ")),
                  meant_name(key_.path, node.text, names));
      return;
    }
    value = node.text;
  }

  // Reads a string, which may be quoted.
  void read(const YamlNode& node, ValidationSource& value) {
    std::string text;
    const size_t before = errors_.size();
    read(node, text);
    if (errors_.size() > before) return;
    if (MaybeProblem problem = parse(text, key_.rule, value))
      refuse(node, problem->remark, problem->instead);
  }

  void read(const YamlNode& node, NamedEnumValue& value) {
    std::string name;
    read(node, name);
    value.set(name);
  }

  template <class T>
  void read(const YamlNode& node, std::optional<T>& value) {
    T given{};
    const bool none = node.is_scalar() && node.text == "none";
    if (!none) read(node, given);
    value = none ? std::nullopt : std::optional<T>(given);
  }

  template <class T>
  void read(const YamlNode& node, std::vector<T>& value) {
    if constexpr (std::is_same_v<T, double>)
      if (node.is_scalar() && !key_.rule.lists.empty()) return read_list_name(node, value);
    if (!node.is_list()) return refuse(node);
    value.clear();
    for (const YamlNode& entry : node.items) {
      if (entry.kind == YamlNode::Kind::kRefused) continue;
      T given{};
      if constexpr (requires { item_kinds(given); })
        read_step(entry, given);
      else
        read(entry, given);
      value.push_back(given);
    }
  }

 private:
  // Returns the problem of a number with a unit: "15ep" for train.epochs.
  template <class T>
  ValueProblem unit_problem(std::string_view text, T value) const {
    const Quantity given = split_unit(text);
    const std::string unit = lower(given.unit);
    const bool epochs = unit == "ep" || unit == "epoch" || unit == "epochs";
    const bool steps = unit == "st" || unit == "step" || unit == "steps";
    if (!epochs && !steps) return {};
    if (key_.path == "train.epochs" && steps) return {"set train.steps instead", ""};
    if (key_.path == "train.steps" && epochs) return {"set train.epochs instead", ""};
    const bool fits = !parse(given.number, key_.rule, value);
    return {"remove the unit", fits ? std::string(given.number) : ""};
  }

  void read_list_name(const YamlNode& node, std::vector<double>& value) {
    std::vector<std::string> names;
    for (const auto& [name, list] : key_.rule.lists) {
      names.push_back(name);
      if (name != node.text) continue;
      value = list;
      return;
    }
    refuse(node, "", nearest_spelling(node.text, names));
  }

  static std::string shown(std::string_view text) {
    return utf8_printable(text.substr(0, utf8_start(text, kShown)));
  }

  void refuse(const YamlNode& node, const std::string& remark = "",
              const std::string& instead = "") {
    std::string given = "the value is empty";
    if (node.is_scalar())
      given = fmt::format("is {}'{}'", node.quoted ? "the string " : "", shown(node.text));
    if (node.is_list()) given = "is a list";
    if (node.is_map()) given = "is a mapping";
    errors_.add(node.range,
                fmt::format("{}: must be {}, but {}{}{}", key_.path, expected(key_), given,
                            remark.empty()                ? ""
                            : remark.starts_with("which") ? ", "
                                                          : "; ",
                            remark),
                instead);
  }

  // Returns the number of keys after the first, without the repeated keys, which were reported.
  static int64_t others(const YamlNode& map) {
    return std::ranges::count(map.keys, false, &YamlNode::repeated) - 1;
  }

  // Reads name, {name: value} or {name: {option: value}}.
  template <class Step>
  void read_step(const YamlNode& node, Step& step) {
    const bool bare = node.is_scalar();
    if (!bare && (!node.is_map() || others(node) != 0))
      return errors_.add(node.range,
                         fmt::format("{}: must be {}, but this entry is not one name with options",
                                     key_.path, expected(key_)));
    const YamlNode& name = bare ? node : node.keys[0];
    const std::vector<ItemKind> kinds = item_kinds(step);
    const auto kind = std::ranges::find(kinds, name.text, &ItemKind::name);
    if (kind == kinds.end()) {
      std::vector<std::string> names;
      for (const ItemKind& known : kinds) names.push_back(known.name);
      return errors_.add(name.range,
                         fmt::format("{}: '{}' is not one of {}", key_.path, shown(name.text),
                                     fmt::join(names, ", ")),
                         nearest_spelling(name.text, names));
    }
    step.kind = kind->name;
    if constexpr (requires { step.range; }) step.range = name.range;
    static const YamlNode kNone;
    read_options(*kind, bare ? kNone : node.items[0], name.range);
  }

  void read_options(const ItemKind& kind, const YamlNode& value, const SourceRange& where) {
    const std::string path = fmt::format("{}: {}", key_.path, kind.name);
    if (!kind.takes_value() && value.kind == YamlNode::Kind::kRefused) return;
    if (kind.takes_value() || (kind.takes_list() && value.is_list())) {
      ConfigKey key = kind.options[0];
      key.path = path;
      return read_value(key, value, where, errors_);
    }
    const bool missing = value.kind == YamlNode::Kind::kMissing;
    if (!missing && !value.is_map())
      return errors_.add(value.range, fmt::format("{}: the options must be a mapping{}", path,
                                                  options_text(kind)));
    bool known = true;
    for (size_t i = 0; i < value.keys.size(); ++i)
      known = read_option(kind, path, value.keys[i], value.items[i]) && known;
    if (!known) return;  // a missing option may be misspelt
    for (const ConfigKey& option : kind.options) {
      const bool given =
          std::ranges::any_of(value.keys, [&](const YamlNode& k) { return k.text == option.path; });
      if (option.rule.required && !given)
        errors_.add(where, fmt::format("{}: needs {}, {}", path, option.path, expected(option)));
    }
  }

  // Returns false for an unknown option.
  bool read_option(const ItemKind& kind, const std::string& path, const YamlNode& name,
                   const YamlNode& value) {
    std::vector<std::string> known;
    for (const ConfigKey& option : kind.options) {
      known.push_back(option.path);
      if (option.path != name.text) continue;
      ConfigKey key = option;
      key.path = path + "." + option.path;
      read_value(key, value, name.range, errors_);
      return true;
    }
    errors_.add(
        name.range,
        fmt::format("{}: unknown option '{}'{}", path, shown(name.text), options_text(kind)),
        meant_name(kind.name, name.text, known));
    return false;
  }

  static std::string options_text(const ItemKind& kind) {
    std::vector<std::string> known;
    for (const ConfigKey& option : kind.options) known.push_back(option.path);
    return known.empty() ? " (known: none)" : fmt::format(" (known: {})", fmt::join(known, ", "));
  }

  const ConfigKey& key_;
  Diagnostics& errors_;
};

}  // namespace

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

void read_value(const ConfigKey& key, const YamlNode& value, const SourceRange& where,
                Diagnostics& errors) {
  if (value.kind == YamlNode::Kind::kRefused) return;
  if (value.kind == YamlNode::Kind::kMissing)
    return errors.add(
        where, fmt::format("{}: must be {}, but the value is empty", key.path, expected(key)));
  std::visit([&](auto* target) { Reader(key, errors).read(value, *target); }, key.target);
}

}  // namespace tessera
