// Protects device memory from the host: by a protection key of the processor if it has them, else
// by the rights of its pages, which costs system calls.
#pragma once

#include <cstddef>

namespace cuda_double {

// Set the range of device memory, and how far it is used: changing the rights of its pages takes
// time in proportion to their number.
void set_device_memory(char* begin, size_t bytes);
void set_used(char* end);

// Turns protection on or off; returns whether it was on. TESSERA_DOUBLE_PROTECT=0 or 1 sets the
// initial state; without it, protection is on if keys make it cheap.
bool protect(bool on);

// Allows access to device memory while it exists.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

}  // namespace cuda_double
