// Documentation of the configuration keys for people and editors, generated from config_keys().
#pragma once

#include <string>

namespace tessera {

// Returns the JSON Schema (draft 2020-12), without the rules between several keys.
std::string config_schema();

// Returns the reference page, docs/config.md.
std::string config_reference();

// Returns a configuration for this model, with the default of every key and a comment. Enlarges the
// images if the model needs larger ones. Throws ConfigError for an unknown model.
std::string config_template(const std::string& model);

}  // namespace tessera
