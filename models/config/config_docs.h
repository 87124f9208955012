// The keys of configurations for people and editors, all written from config_keys().
#pragma once

#include <string>

namespace tessera {

// JSON Schema (draft 2020-12). What holds between several keys it does not know.
std::string config_schema();

// The reference page, docs/config.md.
std::string config_reference();

// A configuration of every key with its default and a comment on each, for this model; images are
// larger where it needs that. Throws
// ConfigError for an unknown one.
std::string config_template(const std::string& model);

}  // namespace tessera
