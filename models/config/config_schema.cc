// config_keys() as JSON Schema.
#include <cmath>

#include "tessera/models/config/config_docs.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/number.h"

namespace tessera {

namespace {

using Members = std::vector<Json::Member>;

Json any_of(const std::vector<Json>& schemas) {
  return Json::object({{"anyOf", Json::list(schemas)}});
}

Json constant(const Json& value) { return Json::object({{"const", value}}); }

Json pattern(const std::string& units) {
  return Json::object(
      {{"type", "string"}, {"pattern", "^([0-9]*[.]?[0-9]+|[0-9]+[.])" + units + "$"}});
}

// Limits are doubles; whole ones are written so.
Json limit(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

Json number(const char* type, const KeyRule& rule) {
  Members members{{"type", type}};
  if (std::isfinite(rule.min))
    members.emplace_back(rule.above_min ? "exclusiveMinimum" : "minimum", limit(rule.min));
  if (std::isfinite(rule.max))
    members.emplace_back(rule.below_max ? "exclusiveMaximum" : "maximum", limit(rule.max));
  return Json::object(members);
}

template <class Step>
Json step_schema();

// The schema of a value; each operator() is that of one type of key.
class ValueSchema {
 public:
  explicit ValueSchema(const KeyRule& rule) : rule_(rule) {}

  Json operator()(const bool*) const { return Json::object({{"type", "boolean"}}); }
  Json operator()(const int*) const { return number("integer", rule_); }
  Json operator()(const int64_t*) const { return number("integer", rule_); }
  Json operator()(const uint64_t*) const { return number("integer", rule_); }
  Json operator()(const double*) const { return number("number", rule_); }
  Json operator()(const std::string*) const {
    if (rule_.names.empty()) return Json::object({{"type", "string"}});
    return (*this)(static_cast<const NamedValue*>(nullptr));
  }
  Json operator()(const NamedValue*) const {
    std::vector<Json> names(rule_.names.begin(), rule_.names.end());
    for (const std::string& name : rule_.names)  // YAML takes the text 1 for a number
      if (int64_t whole = 0; parse_number(name, whole) == std::errc()) names.emplace_back(whole);
    return Json::object({{"enum", Json::list(names)}});
  }
  Json operator()(const Workers*) const {
    return any_of({constant("auto"), (*this)(static_cast<const int*>(nullptr))});
  }
  Json operator()(const ValidationSource*) const {
    return any_of(
        {Json::object({{"type", "string"}}), Json::object({{"type", "integer"}, {"minimum", 1}})});
  }
  Json operator()(const Duration*) const {
    const Json text = pattern(rule_.time ? "(ep|st|min|h)" : "(ep|st)");
    return rule_.above_min ? text : any_of({constant(0), text});
  }
  Json operator()(const ByteSize*) const {
    const Json size = pattern("([KMGT]i)?B");
    return rule_.automatic ? any_of({constant("auto"), size}) : size;
  }
  template <class T>
  Json operator()(const std::optional<T>*) const {
    return any_of({constant("none"), (*this)(static_cast<const T*>(nullptr))});
  }
  template <class T>
  Json operator()(const std::vector<T>*) const {
    Json items;
    if constexpr (std::is_same_v<T, LayerConfig>)
      items = Json::object({{"$ref", "#/$defs/layer"}});  // layers may hold layers
    else if constexpr (requires(T step) { item_kinds(step); })
      items = step_schema<T>();
    else
      items = (*this)(static_cast<const T*>(nullptr));
    const Json list = Json::object({{"type", "array"}, {"items", items}});
    if (rule_.lists.empty()) return list;
    std::vector<Json> forms = {list};
    for (const auto& entry : rule_.lists) forms.push_back(constant(entry.first));
    return any_of(forms);
  }

 private:
  const KeyRule& rule_;
};

Json value_schema(const ConfigKey& key) {
  const Json schema =
      std::visit([&](const auto* target) { return ValueSchema(key.rule)(target); }, key.target);
  Members members = schema.members();
  members.emplace_back("description", key.help);
  return Json::object(members);
}

Json map_schema(Members properties, const std::vector<Json>& required, const Json& type) {
  return Json::object({{"type", type},
                       {"additionalProperties", false},
                       {"required", Json::list(required)},
                       {"properties", Json::object(properties)}});
}

Json options_schema(const ItemKind& kind) {
  if (kind.takes_value()) return value_schema(kind.options[0]);
  Members properties;
  std::vector<Json> required;
  for (const ConfigKey& option : kind.options) {
    properties.emplace_back(option.path, value_schema(option));
    if (option.rule.required) required.emplace_back(option.path);
  }
  const Json type = required.empty() ? Json::list({"object", "null"}) : Json("object");
  const Json map = map_schema(properties, required, type);
  return kind.takes_list() ? any_of({value_schema(kind.options[0]), map}) : map;
}

template <class Step>
Json step_schema() {
  Step fresh;
  std::vector<Json> kinds, bare;
  for (const ItemKind& kind : item_kinds(fresh)) {
    if (kind.may_be_bare()) bare.emplace_back(kind.name);
    Members members{{"description", kind.help}};
    for (auto& member :
         map_schema({{kind.name, options_schema(kind)}}, {kind.name}, "object").members())
      members.push_back(std::move(member));
    kinds.push_back(Json::object(members));
  }
  if (!bare.empty()) kinds.push_back(Json::object({{"enum", Json::list(bare)}}));
  return any_of(kinds);
}

}  // namespace

std::string config_schema() {
  Config defaults;
  Members top, members;
  std::string group;
  const auto end_group = [&] {
    if (!group.empty())
      top.emplace_back(group, Json::object({{"type", "object"},
                                            {"additionalProperties", false},
                                            {"properties", Json::object(members)}}));
    members.clear();
  };
  for (const ConfigKey& key : config_keys(defaults)) {
    if (key.group() != group) end_group();
    group = key.group();
    (group.empty() ? top : members).emplace_back(key.leaf(), value_schema(key));
  }
  end_group();
  return Json::object({{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "Tessera configuration"},
                       {"type", "object"},
                       {"additionalProperties", false},
                       {"properties", Json::object(top)},
                       {"$defs", Json::object({{"layer", step_schema<LayerConfig>()}})}})
             .text(2) +
         "\n";
}

}  // namespace tessera
