// Profiles of networks of every kind, from which memory.costs estimates what others take on this
// machine: trainer profile --machine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/study/profile.h"

namespace tessera {

struct Config;  // models/config/config.h

struct SampleNetwork {
  const char* model;
  int64_t image_size, batch;
};

// Returns what the networks of the zoo name (models/zoo/networks.h), small images first: channels
// from 3 to 2,048, every kind of convolution that the zoo has.
const std::vector<SampleNetwork>& sample_networks();

// JSON: {"format": kMachineFormat, "profiles": [what Profile::json() writes, ...]}. `config` says
// how to train them (optimizer, threads); `started` is told of each before it runs. Takes a minute
// or two for sample_networks(). Throws what profile() throws.
std::string profile_machine(const Config& config, const ProfileOptions& options,
                            std::span<const SampleNetwork> networks,
                            const std::function<void(const SampleNetwork&)>& started = {});

}  // namespace tessera
