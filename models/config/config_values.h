// Values of configurations: from YAML into their places, with errors that say what was meant.
#pragma once

#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/yaml_tree.h"

namespace tessera {

// Reads the value into key.target, or reports why it cannot be: type, unit, range, name. `where`:
// the key, for a value that is missing.
void read_value(const ConfigKey& key, const YamlNode& value, const SourceRange& where,
                Diagnostics& errors);

}  // namespace tessera
