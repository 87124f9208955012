// What the operating system says of memory now.
#pragma once

#include <cstdint>

namespace tessera {

// Bytes; 0 where the system does not say.
struct HostMemory {
  int64_t process = 0;       // of this process, in use: without programs and libraries
  int64_t process_most = 0;  // the most that was resident at once, with programs and libraries
  int64_t free = 0;          // what this process could still get without swapping
  int64_t total = 0;         // of the machine, or of the control group where that has less
  int64_t libraries = 0;     // resident of programs, libraries and other files mapped
  int64_t swap_total = 0, swap_free = 0;
  int64_t swapped = 0;  // of this process, written out to the disk
};

// Allocates nothing. `free` is never more than what is there: it heeds the limits of the control
// groups that the process runs in, as containers and services have them, and `ulimit -v`.
// Thread-safe.
HostMemory host_memory();

// Hands back to the machine what the C library's heap holds and nobody uses, where it can (glibc):
// after planning, before memory is wanted for steps. Thread-safe.
void release_unused_heap();

}  // namespace tessera
