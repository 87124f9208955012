// Where the slots of a program that is run ahead of the host lie.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// In bytes: first the argument `ahead`, -1 for none, which is much of them all; then the others
// from `arguments` on; then the results from `results` on, and an int64, the refused updates of the
// device, at `refused`. So the others are one copy, and so are the results (host_staging.h).
struct SlotLayout {
  int prefetched = -1;
  size_t arguments = 0, results = 0, refused = 0;
  size_t end() const { return refused + sizeof(int64_t); }
};

}  // namespace tessera
