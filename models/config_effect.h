// Which keys mean something beside which choices.
#pragma once

#include <string>

#include "tessera/models/config_keys.h"

namespace tessera {

// Why what the key holds changes nothing in this configuration: "with data.name: mnist; it belongs
// to cifar100". Empty where it may, and at the default, which a printed configuration has of every
// key.
std::string why_without_effect(const Config& config, const ConfigKey& key);

}  // namespace tessera
