// Which op holds how much eager memory, for errors that say so.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tessera/runtime/device.h"

namespace tessera {

struct Storage;  // storage.h

// A block of eager memory comes and goes. The holder is the op that runs in this thread and its
// place in the model: "conv2d at block.conv1"; "creation" outside of ops. Thread-safe.
void record_allocation(const Storage& storage, bool scratch);
void record_release(const Storage& storage) noexcept;

// The holders with most bytes, a line for each: "\n    12.00 MiB  conv2d at block.conv1, 2
// tensors"; empty where nothing is held.
std::string largest_allocations(Device device, size_t count = 5);

// The op that runs in this thread; the innermost where they nest.
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
