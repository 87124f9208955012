// SlotLayout: the order of the slots of a program that runs ahead of the host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// In bytes: the argument `prefetched` (-1: none), which has at least half of the bytes of all
// arguments; the other arguments from `arguments` on; the results from `results` on, followed at
// `refused` by an int64, the device's count of skipped updates. So the other arguments are one
// copy, and the results with the count are another (host_staging.h).
struct SlotLayout {
  int prefetched = -1;
  size_t arguments = 0, results = 0, refused = 0;
  size_t end() const { return refused + sizeof(int64_t); }
};

}  // namespace tessera
