// Values of configurations as YAML.
#pragma once

#include <string>

#include "tessera/models/config/config_keys.h"

namespace tessera {

// What key.target holds, in the flow style: reading it gives the same value.
std::string value_text(const ConfigKey& key);

}  // namespace tessera
