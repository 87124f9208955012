// ConfigKey: the only description of a configuration key: its target, its rule, the choice for
// which it has an effect, and its help. Parsing, checking, overriding, printing, help and schema
// all iterate over config_keys().
//
// A new key is a member of a struct in config.h and a row in config_keys.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/models/config/config.h"

namespace tessera {

struct YamlNode;  // yaml_tree.h

// The values that a key accepts, in addition to its type.
struct KeyRule {
  double min = -std::numeric_limits<double>::infinity();  // limits of a number, list entry or count
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;               // min itself is not allowed
  bool below_max = false;               // max itself is not allowed
  std::vector<std::string> names = {};  // allowed strings; empty: all
  // Names that stand for lists of numbers.
  std::vector<std::pair<std::string, std::vector<double>>> lists = {};
  bool automatic = false;  // size: auto is also allowed
  bool time = false;       // duration: minutes and hours are also allowed
  bool required = false;   // option of a list item: has no default
};

// The maximum durations; kMaxEpochs also limits minutes and hours. Products with the steps of an
// epoch fit into 64-bit integers.
inline constexpr double kMaxSteps = 1e15, kMaxEpochs = 1e9;
// The range of positive numbers that stay above 0 and finite as float, with a margin for
// arithmetic.
inline constexpr double kMinFloat = 1e-37, kMaxFloat = 1e37;

// Short forms of rules, for the tables of keys, optimizers, layers and augmentations.
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();
inline KeyRule any() { return {}; }
inline KeyRule at_least(double min, double max = kNoLimit) { return {.min = min, .max = max}; }
inline KeyRule above(double min, double max = kNoLimit) {
  return {.min = min, .max = max, .above_min = true};
}
// [min, max)
inline KeyRule from_below(double min, double max) {
  return {.min = min, .max = max, .below_max = true};
}
inline KeyRule one_of(std::vector<std::string> names) { return {.names = std::move(names)}; }
template <class E>
KeyRule one_of() {
  return one_of(names_of<E>());
}
inline KeyRule required(KeyRule rule) {
  rule.required = true;
  return rule;
}

// Returns the group of a key, "data" for "data.batch"; "" for a top-level key.
std::string group_of(const std::string& path);

// Returns the text with lower-case ASCII letters.
std::string lower(std::string_view text);

// A key whose value decides which other keys have an effect.
struct Choice {
  const char* key;                              // "schedule.name"
  std::string (*chosen)(const Config& config);  // "cosine"
  bool in_help = true;                          // defaults of When::in_help and When::puts_aside
  bool puts_aside = true;
};

// The values of a choice for which a key has an effect.
struct When {
  const Choice* choice;
  std::vector<std::string> values;
  bool in_help;     // whether the key's help begins with the values
  bool puts_aside;  // whether an override of the choice resets a key of the file that has no effect
};

struct ConfigKey {
  using Target =
      std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, Duration*, ByteSize*,
                   NamedEnumValue*, ValidationSource*, Workers*, std::optional<int64_t>*,
                   std::optional<ByteSize>*, std::optional<double>*, std::vector<int64_t>*,
                   std::vector<double>*, std::vector<Duration>*, std::vector<ByteSize>*,
                   std::vector<std::string>*, std::vector<AugmentConfig>*,
                   std::vector<LayerConfig>*, std::vector<GroupConfig>*>;

  ConfigKey(std::string path, Target target, KeyRule rule, std::string help);
  // Begins the help with the values: "step, exponential: between ...".
  ConfigKey(std::string path, Target target, KeyRule rule, When when, const std::string& help);

  std::string path;  // "data.batch"
  Target target;     // into the argument of config_keys()
  KeyRule rule;
  std::optional<When> when;  // none: always has an effect
  std::string help;

  std::string group() const { return group_of(path); }                  // "data"
  std::string leaf() const { return path.substr(path.find('.') + 1); }  // "batch"
};

// Returns all keys in printing order: top-level keys first, then group by group.
std::vector<ConfigKey> config_keys(Config& config);

// Returns the name that probably was intended by `word`, which is not in `known`: the current name
// if an earlier version used `word` in `scope`, else the nearest spelling; "" if there is none. The
// scope is a group ("data"), a key with names as values ("gpu.plans") or a kind of layer.
std::string meant_name(std::string_view scope, std::string_view word,
                       const std::vector<std::string>& known);

// Returns a text of print_config() by an earlier version with the current names.
std::string with_current_names(std::string_view printed);

// A kind of list item: `{crop: {padding: 4}}`, `{flip: horizontal}` or `relu`. The options are
// described like keys, with paths such as "padding"; "" is a value directly after the name.
struct ItemKind {
  std::string name;
  std::string help;
  std::vector<ConfigKey> options;  // into the argument of item_kinds()

  bool takes_value() const { return options.size() == 1 && options[0].path.empty(); }
  bool may_be_bare() const;  // the name alone is enough
  bool takes_list() const;   // a list directly after the name sets the first option
};
std::vector<ItemKind> item_kinds(AugmentConfig& step);
std::vector<ItemKind> item_kinds(LayerConfig& step);
std::vector<ItemKind> item_kinds(GroupConfig& group);

// Returns the accepted values for errors and help: "an integer from 1 on".
std::string expected(const ConfigKey& key);

// Returns the value of key.target in YAML flow style. Reading that text gives an equal value.
std::string value_text(const ConfigKey& key);

// Reads the value into key.target, or reports a wrong type, unit, range or name. Reports a missing
// value at `where`, the position of the key.
void read_value(const ConfigKey& key, const YamlNode& value, const SourceRange& where,
                Diagnostics& errors);

// Checks the rules between several keys of a configuration. Reports nothing about `wrong`, the
// groups with errors. `otherwise` is the position of errors about keys that are not given.
void check_config(const Config& config, const GivenKeys& given, const std::set<std::string>& wrong,
                  const SourceRange& otherwise, Diagnostics& errors);

// Returns the keys that apply to a model in addition to its name: weights, and the options of the
// zoo or, if is_layered, classes and layers. Empty for an unknown name.
std::vector<std::string> options_of_model(const std::string& name, bool is_layered);

// Returns true if the key has its default value.
bool is_default(const ConfigKey& key);

// Returns why the key has no effect in this configuration: "with data.name: mnist; it applies
// only to cifar100". Empty if it may have an effect or has its default, as printed configurations
// contain the defaults.
std::string why_without_effect(const Config& config, const ConfigKey& key);

// Returns true if `device` names a CPU or a part of one; auto and all other names may be GPUs.
bool names_cpu(const Config& config);

// Returns the choice whose override resets `key` if the file gives `key` without effect: data.name,
// for data.name=synthetic and a file with data.root. "" if there is none.
std::string choice_that_puts_aside(const ConfigKey& key);

}  // namespace tessera
