// The one description of the configuration: every key, where its value lives, what it may be,
// beside which choices it is read, and what it is for. Parsing, checking, overriding, printing,
// help and schema all walk this list.
//
// A new key is a member of a struct in config.h and a row in config_keys.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tessera/models/config/config.h"

namespace tessera {

struct YamlNode;  // yaml_tree.h

// What a value may be, beyond its type.
struct KeyRule {
  double min = -std::numeric_limits<double>::infinity();  // of a number, a list's entry, a count
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;               // min itself is not allowed
  bool below_max = false;               // nor is max
  std::vector<std::string> names = {};  // of a text: one of these, when there are any
  // Of a list of numbers: names that stand for one.
  std::vector<std::pair<std::string, std::vector<double>>> lists = {};
  bool automatic = false;  // of a size: auto is allowed too
  bool time = false;       // of a length: minutes and hours are allowed too
  bool required = false;   // of an option of a step: has no default
};

// What lengths may be at most, in minutes and hours as in epochs: products with the steps of an
// epoch stay whole numbers of 64 bits.
inline constexpr double kMaxSteps = 1e15, kMaxEpochs = 1e9;
// The numbers above 0 that are neither 0 nor infinite as float, and leave room to count with.
inline constexpr double kMinFloat = 1e-37, kMaxFloat = 1e37;

// Rules as the tables of keys, optimizers, layers and augmentations write them.
KeyRule any();
KeyRule at_least(double min, double max = std::numeric_limits<double>::infinity());
KeyRule above(double min, double max = std::numeric_limits<double>::infinity());
KeyRule from_below(double min, double max);  // [min, max)
KeyRule between(double min, double max);     // (min, max)
KeyRule one_of(std::vector<std::string> names);
template <class E>
KeyRule one_of() {
  return one_of(names_of<E>());
}
KeyRule or_time(KeyRule rule);  // a length may be a time too
KeyRule or_auto(KeyRule rule);  // a size may be auto
KeyRule or_list(KeyRule rule, const std::string& name, const std::vector<float>& list);
KeyRule required(KeyRule rule);

// A key that decides which others are read.
struct Choice {
  const char* key;                              // "schedule.name"
  std::string (*chosen)(const Config& config);  // "cosine"
  bool in_help = true;  // When::in_help and When::puts_aside, unless a row tells otherwise
  bool puts_aside = true;
};

// The values of a choice beside which a key is read.
struct When {
  const Choice* choice;
  std::vector<std::string> values;
  bool in_help;     // whether the key's help begins with the values
  bool puts_aside;  // whether an override of the choice drops the key of a file that it silences
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
  Target target;     // into the Config the list was made for
  KeyRule rule;
  std::optional<When> when;  // none: always read
  std::string help;

  std::string group() const;  // "data", "" for a key without one
  std::string leaf() const;   // "batch"
};

// In the order of printing: keys of a group stand together, those without a group come first.
std::vector<ConfigKey> config_keys(Config& config);

// One thing a list of steps may hold: `{crop: {padding: 4}}`, `{flip: horizontal}` or `relu`. The
// options are described like keys, with paths such as "padding"; "" is a value right after the
// name.
struct ItemKind {
  std::string name;
  std::string help;
  std::vector<ConfigKey> options;  // into the step the list was made for

  bool takes_value() const { return options.size() == 1 && options[0].path.empty(); }
  bool may_be_bare() const;  // its name alone says everything
  bool takes_list() const;   // a list right after the name is its first option
};
std::vector<ItemKind> item_kinds(AugmentConfig& step);
std::vector<ItemKind> item_kinds(LayerConfig& step);
std::vector<ItemKind> item_kinds(GroupConfig& group);

// "a whole number from 1 on", for errors and help.
std::string expected(const ConfigKey& key);

// Returns what key.target holds, in the flow style: reading it gives the same value.
std::string value_text(const ConfigKey& key);

// Reads the value into key.target, or reports why it cannot be: type, unit, range, name. `where`:
// the key, for a value that is missing.
void read_value(const ConfigKey& key, const YamlNode& value, const SourceRange& where,
                Diagnostics& errors);

// Checks what must hold between several keys of a configuration. wrong: groups with errors, about
// which nothing more is said. otherwise: the place of errors about keys that nobody gave.
void check_config(const Config& config, const GivenKeys& given, const std::set<std::string>& wrong,
                  const SourceRange& otherwise, Diagnostics& errors);

// Returns what may be given besides its name about a network, or about one given layer by layer:
// what the zoo says, and the weights to begin with. Empty for a name that is not known.
std::vector<std::string> options_of_model(const std::string& name, bool is_layered);

// Whether the key holds what it holds unless it is given.
bool is_default(const ConfigKey& key);

// Why what the key holds changes nothing in this configuration: "with data.name: mnist; it belongs
// to cifar100". Empty where it may, and at the default, which a printed configuration has of every
// key.
std::string why_without_effect(const Config& config, const ConfigKey& key);

// Whether device names a CPU or a part of one; auto and whatever else may come to a GPU.
bool names_cpu(const Config& config);

// The key whose override silences one of the file that has no effect any more: data.name=synthetic
// beside a file with data.root. "" where nothing does.
std::string choice_that_puts_aside(const ConfigKey& key);

}  // namespace tessera
