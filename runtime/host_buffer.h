// What is held of the host's memory, for reports and limits.
#pragma once

#include <cstddef>
#include <string>

namespace tessera {

// Bytes asked of the machine in one request, and what they are for.
struct HostBuffer {
  std::string name;
  size_t bytes = 0;
};

}  // namespace tessera
