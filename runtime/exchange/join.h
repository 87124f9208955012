// Joins a training that mpirun or srun started in several processes.
#pragma once

#include <memory>

#include "tessera/runtime/exchange/exchange.h"

namespace tessera {

// Returns the exchange with the other processes; nullptr if this program was started alone. Loads
// libtessera_mpi.so from the folder of the program or ../lib/tessera. Throws ConfigError if there
// is none, or if it is of another MPI than the one that started the processes. `timeout`: see
// Exchange.
std::shared_ptr<Exchange> join_processes(double timeout);

// Throws ConfigError if mpirun or srun started several processes of a command that runs alone.
void require_one_process(const char* command);

}  // namespace tessera
