// What must hold between several keys of a configuration.
#pragma once

#include <map>
#include <string>

#include "tessera/models/config.h"
#include "tessera/models/diagnostics.h"

namespace tessera {

// Where each key that was given was given last.
using GivenKeys = std::map<std::string, Place>;

// otherwise: the place of errors about keys that nobody gave.
void check_config(const Config& config, const GivenKeys& given, const Place& otherwise,
                  Diagnostics& errors);

}  // namespace tessera
