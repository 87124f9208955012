// Which keys mean something beside which choices (ConfigKey::when).
#pragma once

#include <string>
#include <vector>

#include "tessera/models/config/config_keys.h"

namespace tessera {

// What may be given about a network of that name, or one given layer by layer, besides its name:
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
