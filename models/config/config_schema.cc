// config_keys() as JSON Schema.
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_docs.h"
#include "tessera/models/config/config_print.h"

namespace tessera {

namespace {

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json + "\"";
}

std::string object(const std::vector<std::string>& members) {
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

// ", "minimum": 1, "exclusiveMaximum": 2"
std::string range(const KeyRule& rule) {
  std::string text;
  if (std::isfinite(rule.min))
    text += fmt::format(", \"{}\": {}", rule.above_min ? "exclusiveMinimum" : "minimum", rule.min);
  if (std::isfinite(rule.max))
    text += fmt::format(", \"{}\": {}", rule.below_max ? "exclusiveMaximum" : "maximum", rule.max);
  return text;
}

// The schema of a value; each operator() is that of one type of key.
class ValueSchema {
 public:
  explicit ValueSchema(const KeyRule& rule) : rule_(rule) {}

  std::string operator()(const bool*) const { return R"({"type": "boolean"})"; }
  std::string operator()(const int*) const { return number("integer"); }
  std::string operator()(const int64_t*) const { return number("integer"); }
  std::string operator()(const uint64_t*) const { return number("integer"); }
  std::string operator()(const double*) const { return number("number"); }
  std::string operator()(const std::string*) const {
    if (rule_.names.empty()) return R"({"type": "string"})";
    std::vector<std::string> names;
    for (const std::string& name : rule_.names) names.push_back(quoted(name));
    return fmt::format(R"({{"enum": [{}]}})", fmt::join(names, ", "));
  }
  std::string operator()(const Duration*) const {
    const std::string units = rule_.time ? "ep|st|min|h" : "ep|st";
    const std::string text = fmt::format(
        R"({{"type": "string", "pattern": "^([0-9]*[.]?[0-9]+|[0-9]+[.])({})$"}})", units);
    return rule_.above_min ? text : either(R"({"const": 0})", text);
  }
  std::string operator()(const ByteSize*) const {
    return R"({"type": "string", "pattern": "^([0-9]*[.]?[0-9]+|[0-9]+[.])([KMGT]i)?B$"})";
  }
  template <class T>
  std::string operator()(const std::optional<T>*) const {
    return either(R"({"const": "none"})", (*this)(static_cast<const T*>(nullptr)));
  }
  template <class T>
  std::string operator()(const std::vector<T>*) const {
    std::string items;
    if constexpr (std::is_same_v<T, LayerConfig>)
      items = R"({"$ref": "#/$defs/layer"})";  // layers may hold layers
    else if constexpr (requires(T step) { item_kinds(step); })
      items = step<T>();
    else
      items = (*this)(static_cast<const T*>(nullptr));
    return fmt::format(R"({{"type": "array", "items": {}}})", items);
  }

  template <class Step>
  static std::string step() {
    Step fresh;
    std::vector<std::string> kinds, bare;
    for (const ItemKind& kind : item_kinds(fresh)) {
      if (kind.may_be_bare()) bare.push_back(quoted(kind.name));
      kinds.push_back(fmt::format(
          R"({{"type": "object", "description": {}, "additionalProperties": false, "required": [{}], "properties": {{{}: {}}}}})",
          quoted(kind.help), quoted(kind.name), quoted(kind.name), options(kind)));
    }
    if (!bare.empty()) kinds.push_back(fmt::format(R"({{"enum": [{}]}})", fmt::join(bare, ", ")));
    return fmt::format(R"({{"anyOf": [{}]}})", fmt::join(kinds, ", "));
  }

 private:
  static std::string either(const std::string& a, const std::string& b) {
    return fmt::format(R"({{"anyOf": [{}, {}]}})", a, b);
  }

  std::string number(const char* type) const {
    return fmt::format(R"({{"type": "{}"{}}})", type, range(rule_));
  }

  static std::string options(const ItemKind& kind);

  const KeyRule& rule_;
};

std::string value_schema(const ConfigKey& key) {
  std::string schema =
      std::visit([&](const auto* target) { return ValueSchema(key.rule)(target); }, key.target);
  schema.pop_back();
  return fmt::format("{}, \"description\": {}}}", schema, quoted(key.help));
}

std::string ValueSchema::options(const ItemKind& kind) {
  if (kind.takes_value()) return value_schema(kind.options[0]);
  std::vector<std::string> properties, required;
  for (const ConfigKey& option : kind.options) {
    properties.push_back(fmt::format("{}: {}", quoted(option.path), value_schema(option)));
    if (option.rule.required) required.push_back(quoted(option.path));
  }
  const char* type = required.empty() ? R"(["object", "null"])" : R"("object")";
  const std::string map = fmt::format(
      R"({{"type": {}, "additionalProperties": false, "required": [{}], "properties": {}}})", type,
      fmt::join(required, ", "), object(properties));
  return kind.takes_list() ? either(value_schema(kind.options[0]), map) : map;
}

}  // namespace

std::string config_schema() {
  Config defaults;
  std::vector<std::string> top, members;
  std::string group;
  const auto end_group = [&] {
    if (!group.empty())
      top.push_back(fmt::format(
          "    {}: {{\"type\": \"object\", \"additionalProperties\": false, \"properties\": "
          "{{\n      {}}}}}",
          quoted(group), fmt::join(members, ",\n      ")));
    members.clear();
  };
  for (const ConfigKey& key : config_keys(defaults)) {
    if (key.group() != group) end_group();
    group = key.group();
    const std::string member = fmt::format("{}: {}", quoted(key.leaf()), value_schema(key));
    if (group.empty())
      top.push_back("    " + member);
    else
      members.push_back(member);
  }
  end_group();
  return fmt::format(
      "{{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
      "  \"title\": \"Tessera configuration\",\n  \"type\": \"object\",\n"
      "  \"additionalProperties\": false,\n  \"properties\": {{\n{}\n  }},\n"
      "  \"$defs\": {{\n    \"layer\": {}\n  }}\n}}\n",
      fmt::join(top, ",\n"), ValueSchema::step<LayerConfig>());
}

}  // namespace tessera
