// MemoryItem: an allocation of host or GPU memory, for reports and limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

// The size of one system allocation and its purpose.
struct MemoryItem {
  std::string name;
  size_t bytes = 0;
};

inline int64_t total_bytes(const std::vector<MemoryItem>& buffers) {
  int64_t sum = 0;
  for (const MemoryItem& buffer : buffers) sum += static_cast<int64_t>(buffer.bytes);
  return sum;
}

}  // namespace tessera
