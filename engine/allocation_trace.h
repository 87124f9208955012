// AllocationTrace records the allocations of eager mode: op, module path, lifetime and address. A
// recording can be drawn like a plan and compared with one. The log of live allocations by op is
// for out-of-memory errors.
//
//   AllocationTrace trace;  // of this thread's ops, from here on
//   train_step(images, labels);
//   PlanPicture picture = trace.picture("one step");  // for draw_plan_html(), draw_plan_svg()
//
// The innermost of nested traces records. Use a trace only in the thread that made it. A block that
// another thread releases seems live until its address is reused or picture() is called. Persistent
// tensors and earlier blocks are not recorded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/engine/scope.h"
#include "tessera/memory/plan_draw.h"
#include "tessera/runtime/device.h"

namespace tessera {

struct Storage;  // storage.h

class AllocationTrace : ValueScope<AllocationTrace*> {
 public:
  AllocationTrace();

  // Returns the recording so far. Time counts ops. An offset is the address, without the ranges
  // that no block ever used. Groups are as in a plan: activations, gradients, workspace.
  PlanPicture picture(const std::string& title) const;

  // For the engine: returns the trace of this thread, or nullptr.
  static AllocationTrace* current();
  void begin_op(std::string_view name);
  void end_op() { in_op_ = false; }
  void allocated(const void* address, size_t bytes, bool scratch);
  void released(const void* address) noexcept;

 private:
  struct Block {
    uintptr_t address;
    int64_t bytes;
    int64_t lower, upper;  // upper: -1 while it is live
    bool scratch, backward;
  };
  std::vector<int64_t> offsets() const;

  std::vector<std::string> steps_;  // "conv2d layer1.0.conv1"
  std::vector<Block> blocks_;
  std::unordered_map<const void*, size_t> live_;  // blocks by address
  int64_t forward_ends_ = -1;                     // the first op of a backward pass
  bool in_op_ = false;
  bool released_ = false;  // whether a block was released in this op
};

// Reports an op as running to the trace of this thread, if there is one.
class TracedOp {
 public:
  explicit TracedOp(std::string_view name) : trace_(AllocationTrace::current()) {
    if (trace_ != nullptr) trace_->begin_op(name);
  }
  ~TracedOp() {
    if (trace_ != nullptr) trace_->end_op();
  }
  TracedOp(const TracedOp&) = delete;
  TracedOp& operator=(const TracedOp&) = delete;

 private:
  AllocationTrace* trace_;
};

// Record the allocation and release of a block of eager memory, in the trace of this thread and in
// the log: under the op that runs in this thread and the module path, "conv2d at block.conv1";
// "creation" outside of ops. Thread-safe.
void record_allocation(const Storage& storage, bool scratch);
void record_release(const Storage& storage) noexcept;

// Returns the largest allocations in the log by op, one a line: "\n    12.00 MiB  conv2d at
// block.conv1, 2 tensors"; empty if there are none.
std::string largest_allocations(Device device, size_t count = 5);

// Sets the op that runs in this thread; the innermost scope counts.
struct CurrentOpScope : ValueScope<std::string_view> {
  explicit CurrentOpScope(std::string_view name);
};
std::string_view current_op();  // empty outside of ops

}  // namespace tessera
