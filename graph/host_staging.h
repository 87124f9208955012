// HostStaging: staging buffers in pinned (page-locked) host memory for the slots of a program on
// one GPU. They let the program run ahead of the host:
//
//   step k on the copy stream:  wait until run k-1 has read its largest argument; copy that; event
//   on the compute stream:      copy the other arguments at once; wait for that event; run; copy
//                               the results at once; event
//   host:                       fills the buffers of step k+1; waits for the event of step k
//
// There are two sets of buffers: the host fills one while the device may still read the other.
#pragma once

#include <memory>

#include "tessera/engine/tensor.h"
#include "tessera/memory/regions.h"
#include "tessera/runtime/context.h"

namespace tessera {

struct CompiledGraph;  // compiled_graph.h
class Program;         // program.h
struct SlotLayout;     // compiled_graph.h

// Not thread-safe. The program must have a slot_layout and outlive this object.
class HostStaging {
 public:
  // Allocates bytes(compiled) of the device's staging_memory(), and events. Throws OutOfMemory.
  explicit HostStaging(Program& program);

  // These implement the CompiledStep methods of compile.h.
  const Tensor& input(size_t i);
  void stage_input(size_t i, const void* staged);
  void submit();
  void collect();
  const Tensor& output(size_t i) const;
  int64_t skipped_updates() const;

  // Issues copies of the arguments of the run collected last into the slots, after all submitted
  // runs.
  void restore_inputs();

  // Returns the bytes of all staging buffers except those of the largest argument, which input()
  // allocates on its first use.
  static size_t bytes(const CompiledGraph& compiled);

 private:
  struct StagingBuffers {
    std::shared_ptr<Region> arguments, prefetched, results;
    Tensors inputs, outputs;
    const void* prefetched_from = nullptr;  // source of the run submitted last
    std::unique_ptr<Event> done;
  };
  void make_buffers(StagingBuffers& buffers);
  StagingBuffers& next();
  const StagingBuffers& last() const { return buffers_[(collected_ + 1) % 2]; }
  bool is_prefetched(size_t i) const;
  void issue_prefetch(const void* from, Stream& on);
  void issue_arguments(const StagingBuffers& buffers);

  Program& program_;
  const CompiledGraph& compiled_;
  const SlotLayout& layout_;
  Context& ctx_;
  StagingBuffers buffers_[2];
  const void* prefetched_from_ = nullptr;  // source of the next run; nullptr: not given yet
  std::unique_ptr<Event> arrived_;
  uint64_t submitted_ = 0, collected_ = 0;
};

}  // namespace tessera
