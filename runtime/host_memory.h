// host_memory(): the memory statistics of the operating system.
#pragma once

#include <cstdint>

namespace tessera {

// Bytes; 0 if unknown.
struct HostMemory {
  int64_t process = 0;       // in use by this process, without programs and libraries
  int64_t process_most = 0;  // peak resident set, with programs and libraries
  int64_t free = 0;          // available to this process without swapping
  int64_t total = 0;         // this computer's, or the control group's if smaller
  int64_t libraries = 0;     // resident pages of mapped files: programs, libraries, others
  int64_t swap_total = 0, swap_free = 0;
  int64_t swapped = 0;  // swapped-out bytes of this process
};

// Returns the current statistics. `free` respects `ulimit -v` and the limits of the process's
// control groups, as containers and services have them. Allocates nothing. Thread-safe.
HostMemory host_memory();

// Returns unused heap memory of the C library to the system, if it can (glibc). Call it after
// planning, before steps allocate memory. Thread-safe.
void release_unused_heap();

}  // namespace tessera
