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
void hold(const Storage& storage, bool scratch);
void let_go(const Storage& storage) noexcept;

// The holders with most bytes, a line for each: "\n    12.00 MiB  conv2d at block.conv1, 2
// tensors"; empty where nothing is held.
std::string largest_holders(Device device, size_t count = 5);

// The op that runs in this thread; the innermost where they nest.
class RunningOp {
 public:
  explicit RunningOp(std::string_view name);
  ~RunningOp();
  RunningOp(const RunningOp&) = delete;
  RunningOp& operator=(const RunningOp&) = delete;

 private:
  std::string_view outer_;
};
std::string_view running_op();  // empty outside of ops

}  // namespace tessera
