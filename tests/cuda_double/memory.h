// Memory: of devices, and pinned on the host. Every block is between red zones and starts as NaN.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace cuda_double {

constexpr const char* kDeviceName = "simulated GPU (double)";
constexpr int kMultiprocessors = 2;  // few, so that grids are small and their threads loop

int device_count();
size_t device_bytes();  // per device
size_t used_bytes(int device);
size_t pinned_bytes();

enum class Place { pageable, pinned, device };

struct Region {
  Place place = Place::pageable;
  int device = -1;
  char* begin = nullptr;
  size_t bytes = 0;
};
Region region_of(const void* address);  // pageable if unknown

void* take_device(int device, size_t bytes);  // nullptr: out of memory
bool give_device(void* block);                // false: not the start of a block
void* take_pinned(size_t bytes);
bool give_pinned(void* block);
// Aborts if bytes next to a block have been overwritten.
void check_red_zones();

}  // namespace cuda_double
