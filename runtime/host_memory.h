// What the operating system says of memory now.
#pragma once

#include <cstdint>

namespace tessera {

// Bytes; 0 where the system does not say.
struct HostMemory {
  int64_t process = 0;       // of this process, in use: without programs and libraries
  int64_t process_most = 0;  // the most that was resident at once, with programs and libraries
  int64_t free = 0;          // what this process could still get without swapping
  int64_t total = 0;         // of the machine
};

// Allocates nothing. `free` heeds the limit of the control group that the process runs in, as
// containers have one. Thread-safe.
HostMemory host_memory();

}  // namespace tessera
