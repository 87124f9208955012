// The log of eager allocations by op, for out-of-memory errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tessera/runtime/device.h"

namespace tessera {

struct Storage;  // storage.h

// Record the allocation and release of a block of eager memory under the op that runs in this
// thread and the module path: "conv2d at block.conv1"; "creation" outside of ops. Thread-safe.
void record_allocation(const Storage& storage, bool scratch);
void record_release(const Storage& storage) noexcept;

// Returns the largest allocations by op, one a line: "\n    12.00 MiB  conv2d at block.conv1, 2
// tensors"; empty if there are none.
std::string largest_allocations(Device device, size_t count = 5);

// Sets the op that runs in this thread; the innermost scope counts.
class CurrentOpScope {
 public:
  explicit CurrentOpScope(std::string_view name);
  ~CurrentOpScope();
  CurrentOpScope(const CurrentOpScope&) = delete;
  CurrentOpScope& operator=(const CurrentOpScope&) = delete;

 private:
  std::string_view outer_;
};
std::string_view current_op();  // empty outside of ops

}  // namespace tessera
