// HostStaging: the page-locked counterparts on the host of the slots of a program on one GPU. With
// them the program runs ahead of the host:
//
//   step k on the copy stream:  wait until run k-1 has read its largest argument; copy that; event
//   on the compute stream:      copy the other arguments at once; wait for that event; run; copy
//                               the results at once; event
//   host:                       fills the twins of step k+1; waits for the event of step k
//
// There are two of each twin, so the host fills one while the device may still read the other.
#pragma once

#include <memory>

#include "tessera/engine/tensor.h"
#include "tessera/graph/slot_layout.h"
#include "tessera/memory/regions.h"
#include "tessera/runtime/context.h"

namespace tessera {

class Program;         // program.h
struct CompiledGraph;  // compiled_graph.h

// Not thread-safe. The program, which has a slot_layout(), must outlive it.
class HostStaging {
 public:
  // Takes bytes(program) of the device's staging_memory(), and events. Throws OutOfMemory.
  explicit HostStaging(Program& program);

  // As CompiledStep says (compile.h).
  const Tensor& input(size_t i);
  void stage_input(size_t i, const void* staged);
  void submit();
  void collect();
  const Tensor& output(size_t i) const;
  int64_t refused_updates() const;

  // Issues that the arguments of the run collected last stand in the slots once more, after all
  // runs.
  void restore_inputs();

  // Without those of the largest argument, which are taken when input() is asked for it.
  static size_t bytes(const CompiledGraph& compiled);

 private:
  struct StagingBuffers {
    std::shared_ptr<Region> arguments, prefetched, results;
    Tensors inputs, outputs;
    const void* prefetched_from = nullptr;  // of the run submitted last
    std::unique_ptr<Event> done;
  };
  void make_buffers(StagingBuffers& buffers);
  StagingBuffers& next();
  StagingBuffers& last() { return buffers_[(collected_ + 1) % 2]; }
  const StagingBuffers& last() const { return buffers_[(collected_ + 1) % 2]; }
  bool is_prefetched(size_t i) const { return static_cast<int>(i) == layout_.prefetched; }
  void issue_prefetch(const void* from, Stream& on);
  void issue_arguments(const StagingBuffers& buffers);

  Program& program_;
  const SlotLayout layout_;
  Context& ctx_;
  StagingBuffers buffers_[2];
  const void* prefetched_from_ = nullptr;  // of the next run; nullptr: not given yet
  std::unique_ptr<Event> arrived_;
  uint64_t submitted_ = 0, collected_ = 0;
};

}  // namespace tessera
