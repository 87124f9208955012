// Whether this machine can train at all, asked without a configuration.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/study/doctor.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

struct MachineReport {
  std::vector<Finding> findings;
  std::string verdict, remedy;  // the remedy of the worst finding; empty where all is well
  Json figures;                 // what the findings stand on, for machines
  int exit_code = 0;            // of the first problem
};

// Program and libraries, with versions built against and running, processor, threads, memory and
// swap, GPUs and why they cannot be used; in builds with CUDA its libraries: which is loaded, which
// copies there are, whether it is the one built with, and the run path; each part of cuDNN is
// loaded in a child process, which a damaged one may end. Then a short training of a product and a
// convolution, timed and held against another way to compute them. Takes a second.
MachineReport examine_machine();

}  // namespace tessera
