// The one description of the configuration: every key, where its value lives, what it may be and
// what it is for. Parsing, checking, overriding and printing all walk this list.
//
// A new key is a member of a struct in config.h and a line in config_keys.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/models/config.h"

namespace tessera {

// What a value may be, beyond its type.
struct KeyRule {
  double min = -std::numeric_limits<double>::infinity();  // of a number, a list's entry, a count
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;          // min itself is not allowed
  bool below_max = false;          // nor is max
  std::vector<std::string> names;  // of a text: one of these, when there are any
};

struct ConfigKey {
  using Target = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, Duration*,
                              std::optional<int64_t>*, std::vector<int64_t>*, std::vector<double>*,
                              std::vector<Duration>*, std::vector<AugmentConfig>*>;

  std::string path;  // "data.batch"
  Target target;     // into the Config the list was made for
  KeyRule rule;
  std::string help;
};

// In the order of printing: keys of a group stand together, those without a group come first.
std::vector<ConfigKey> config_keys(Config& config);

// "a whole number from 1 on", for errors and help.
std::string expected(const ConfigKey& key);

}  // namespace tessera
