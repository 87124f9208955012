// Keeps the host's hands off device memory: by a protection key of the processor where it has them,
// else by the rights of its pages, which costs system calls.
#pragma once

#include <cstddef>

namespace cuda_double {

// What is device memory, and how far it has been used.
void set_device_memory(char* begin, size_t bytes);
void set_used(char* end);

// Whether it is protected; returns whether it was. TESSERA_DOUBLE_PROTECT=0 or 1 says so from the
// start, else it is where keys make it cheap.
bool protect(bool on);

// While one lives, device memory may be touched.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

}  // namespace cuda_double
