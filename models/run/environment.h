// The environment of a run, for env.json of its run folder: enough to explain why the results of
// two machines differ.
#pragma once

#include <map>
#include <string>

#include "tessera/runtime/device.h"

namespace tessera {

// Returns JSON: version, compiler, asserts, build (the linker's number), system, C library, cores,
// instruction set, the device that the steps run on, memory, devices, libraries, started (UTC).
std::string environment_json(Device device = {});
// Returns the members of such a JSON that affect the bits of a training, with their values. AVX2
// and AVX-512 are one value with native kernels.
std::map<std::string, std::string> facts_of_bits(const std::string& environment);
// Lists the members that affect the bits and differ from env.json of a run folder, with both
// values; "" if none. Members that an older version did not write count as different only if
// `exact`.
std::string environment_changes(const std::string& run_dir, Device device, bool exact = false);

const char* tessera_version();  // "1.2.0"

// Returns a command line that a shell splits into these words.
std::string shell_command(int argc, const char* const* argv);

}  // namespace tessera
