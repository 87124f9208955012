// Twins: the page-locked counterparts on the host of the slots of a program on one GPU. With them
// the program runs ahead of the host:
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
class Twins {
 public:
  // Takes bytes(program) of the device's staging_memory(), and events. Throws OutOfMemory.
  explicit Twins(Program& program);

  // As CompiledStep says (compile.h).
  const Tensor& input(size_t i);
  void bring(size_t i, const void* staged);
  void submit();
  void collect();
  const Tensor& output(size_t i) const;
  int64_t refused_updates() const;

  // Issues that the arguments of the run collected last stand in the slots once more, after all
  // runs.
  void put_back();

  // Without those of the largest argument, which are taken when input() is asked for it.
  static size_t bytes(const CompiledGraph& compiled);

 private:
  struct Twin {
    std::shared_ptr<Region> arguments, ahead, results;
    Tensors inputs, outputs;
    const void* ahead_from = nullptr;  // of the run submitted last
    std::unique_ptr<Event> done;
  };
  void make_twin(Twin& twin);
  Twin& next();
  Twin& last() { return twins_[(collected_ + 1) % 2]; }
  const Twin& last() const { return twins_[(collected_ + 1) % 2]; }
  bool is_ahead(size_t i) const { return static_cast<int>(i) == layout_.ahead; }
  void issue_ahead(const void* from, Stream& on);
  void issue_arguments(const Twin& twin);

  Program& program_;
  const SlotLayout layout_;
  Context& where_;
  Twin twins_[2];
  const void* ahead_from_ = nullptr;  // of the next run; nullptr: not given yet
  std::unique_ptr<Event> arrived_;
  uint64_t submitted_ = 0, collected_ = 0;
};

}  // namespace tessera
