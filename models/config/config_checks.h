// What must hold between several keys of a configuration.
#pragma once

#include <set>
#include <string>

#include "tessera/models/config/config.h"
#include "tessera/models/config/diagnostics.h"

namespace tessera {

// wrong: groups with errors, about which nothing more is said. otherwise: the place of errors about
// keys that nobody gave.
void check_config(const Config& config, const GivenKeys& given, const std::set<std::string>& wrong,
                  const SourceRange& otherwise, Diagnostics& errors);

}  // namespace tessera
