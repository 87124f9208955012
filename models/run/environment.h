// What a run ran on, for env.json of its run folder: enough to find out why two machines differ.
#pragma once

#include <string>

#include "tessera/runtime/device.h"

namespace tessera {

// JSON: version, compiler, asserts, build (the linker's number), system, C library, cores,
// instruction set, the device that the steps run on, memory, devices, libraries, started (UTC).
std::string environment_json(Device device = {});
// Names what decides about bits and is another than in env.json of a run folder, now and then; ""
// if nothing is. Members that an older program did not write are compared if `exact` alone: they
// count as others.
std::string environment_changes(const std::string& run_dir, Device device, bool exact = false);

const char* tessera_version();  // "1.2.0"

// A command line that a shell reads as these words.
std::string shell_command(int argc, const char* const* argv);

}  // namespace tessera
