// Prints config_keys() as a page, as a commented configuration and as JSON Schema.
#include "tessera/models/config/config_docs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/network.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/number.h"
#include "tessera/runtime/text/spelling.h"

namespace tessera {

namespace {

constexpr char kIntroduction[] = R"(# Configuration

Written by `trainer config reference`; a test keeps it so.

A configuration is a YAML file. Every key has a default, so it may be as short as it likes:

```yaml
model: {name: resnet20}
data: {name: cifar10, root: data/cifar10}
train: {epochs: 15}
```

- `trainer config init` writes a file of every key with comments, `trainer config schema` a JSON
  Schema for editors.
- `trainer --config FILE key=value ~key` changes keys for one run; `~key` puts a key, or a whole
  group, back to its default. `--print-config` shows what the run would use and where each value
  comes from, `--dry-run` checks everything up to the first step and writes nothing.
- Lengths carry their unit: `2ep` epochs, `500st` steps, where it says so `10min`, `1h`. Sizes are
  written `512MiB`, `2GiB`. A bare 0 needs no unit. Both may stand in quotes, and so may `none`: JSON
  is a configuration too.
- Everything wrong is reported at once, with line and column, before any work is done. Keys given
  twice, anchors, aliases, tags, tabs, more than one document, 32 levels or 1 MiB are errors; so are
  numbers that readers of YAML disagree about (`010`, `0x10`, `1_000`) and `yes` for `true`.
- So are networks that cannot be built for the images, and settings that nothing would read: a
  `schedule.gamma` beside `cosine`, unless it is the default. Where an override chooses another model,
  optimizer, data set or mode, what the file gave for the first (`model.widths`, `optimizer.nesterov`,
  `optimizer.lr`, `data.root`, `memory.planner`, with `data.workers=0` `data.read_ahead`, with
  `checkpoint.keep=0` `checkpoint.best`, with `device=cpu` `gpu.tf32`) is put aside, which `train`, `plan`
  and `--print-config` say.
- `data.validation: 10%` holds training images out, by which the best checkpoint is chosen; the test
  set is then evaluated once, at the end. Without it the best is chosen on the test set, which is said
  wherever it is shown.
- Relative paths (`data.root`, `model.weights`, `memory.costs`, `run.dir`) begin at the folder in which
  the program is started, wherever the file lies; a folder of `data.validation` lies in `data.root`.
- A length above 0 is at least one step, and at most 1e15 steps or 1e9 of another unit.

)";

// Escapes the text of a table cell.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string heading(const std::string& group) {
  return fmt::format("{}## {}\n\n| key | must be | default | |\n|---|---|---|---|\n",
                     group.empty() ? "" : "\n", group.empty() ? "Top level" : "`" + group + "`");
}

template <class Step>
std::string steps_reference(const std::string& path) {
  Step fresh;
  std::string page = fmt::format(
      "\n## Entries of `{}`\n\n| entry | option | must be | default | |\n"
      "|---|---|---|---|---|\n",
      path);
  for (const ItemKind& kind : item_kinds(fresh)) {
    page += fmt::format("| `{}` | | | | {} |\n", kind.name, cell(kind.help));
    for (const ConfigKey& option : kind.options)
      page += fmt::format(
          "| | {} | {} | {} | {} |\n", option.path.empty() ? "" : fmt::format("`{}`", option.path),
          cell(expected(option)),
          option.rule.required ? "" : fmt::format("`{}`", value_text(option)), cell(option.help));
  }
  return page;
}

// Returns 0, the default, if the images of the data set are large enough for the model.
int image_size_for(const Config& config) {
  if (!find_network_problem(config, image_shape(config.data))) return 0;
  int size = 64;
  while (size < 256 && find_network_problem(config, ImageShape{size, size, 3})) size *= 2;
  return size;
}

using Members = std::vector<Json::Member>;

Json any_of(const std::vector<Json>& schemas) {
  return Json::object({{"anyOf", Json::list(schemas)}});
}

Json constant(const Json& value) { return Json::object({{"const", value}}); }

Json pattern(const std::string& units) {
  return Json::object(
      {{"type", "string"}, {"pattern", "^([0-9]*[.]?[0-9]+|[0-9]+[.])" + units + "$"}});
}

// Returns a limit, as an integer if it is one.
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

// The schema of a value: one operator() for each type of key.
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
    return (*this)(static_cast<const NamedEnumValue*>(nullptr));
  }
  Json operator()(const NamedEnumValue*) const {
    std::vector<Json> names(rule_.names.begin(), rule_.names.end());
    for (const std::string& name : rule_.names)  // YAML reads the name 1 as a number
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
      items = Json::object({{"$ref", "#/$defs/layer"}});  // layers may contain layers
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

std::string config_reference() {
  Config defaults;
  std::string page = kIntroduction, group = "-";
  for (const ConfigKey& key : config_keys(defaults)) {
    if (key.group() != group) page += heading(group = key.group());
    page += fmt::format("| `{}` | {} | `{}` | {} |\n", key.leaf(), cell(expected(key)),
                        cell(value_text(key)), cell(key.help));
  }
  page += steps_reference<LayerConfig>("model.layers");
  page += steps_reference<AugmentConfig>("data.augment");
  page += steps_reference<GroupConfig>("optimizer.groups");
  page += "\n## Options of each model\n\n| model | options |\n|---|---|\n";
  for (const std::string& name : model_names()) {
    page += fmt::format("| `{}` |", name);
    for (const std::string& option : model_options(name)) page += fmt::format(" `{}`", option);
    page += " |\n";
  }
  return page;
}

std::string config_template(const std::string& model) {
  const std::vector<std::string>& names = model_names();
  if (std::find(names.begin(), names.end(), model) == names.end())
    throw ConfigError("model: " + unknown_name(model, names));
  constexpr size_t kCommentColumn = 30;
  Config config;
  config.model.name = model;
  const int size = image_size_for(config);
  config.data.image_size = size;
  const std::vector<std::string> options = options_of_model(model, false);
  std::string out = "# Every key with its default; leave out what you do not change.\n", group;
  if (size != 0) out += fmt::format("# Only data.image_size is what {} needs.\n", model);
  for (const ConfigKey& key : config_keys(config)) {
    const bool is_option = key.group() == "model" && key.leaf() != "name";
    if (is_option && std::find(options.begin(), options.end(), key.leaf()) == options.end())
      continue;
    if (key.group() != group) out += fmt::format("\n{}:\n", group = key.group());
    const std::string line =
        fmt::format("{}{}: {}", group.empty() ? "" : "  ", key.leaf(), value_text(key));
    out += fmt::format("{:<{}}  # {}; {}\n", line, kCommentColumn, key.help, expected(key));
  }
  return out;
}

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
