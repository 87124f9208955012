// What a run ran on, for env.json of its run folder: enough to find out why two machines differ.
#pragma once

#include <string>

namespace tessera {

// JSON: version, compiler, build, system, CPU, cores, instruction set, memory, devices, libraries,
// started (UTC).
std::string environment_json();

const char* tessera_version();  // "1.2.0"

// A command line that a shell reads as these words.
std::string shell_command(int argc, const char* const* argv);

}  // namespace tessera
