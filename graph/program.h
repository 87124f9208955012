// Program: executes a compiled graph. It has a kernel for each node, memory, and an address for
// each byte.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/arena.h"
#include "tessera/graph/graph.h"

namespace tessera {

struct CompiledGraph;  // compiled_graph.h
struct CompileOptions;
class PlanGuard;  // plan_guard.h

// Where the first number that is not finite came from.
struct NonFinite {
  int node = -1;            // index in the program; -1: it was there before the first node
  std::string op;           // "conv2d"; empty when it was there before
  std::string module_path;  // where in the model
  std::string value;        // "%12 float32[4x8x8x16]"
  int64_t element = 0;
  double number = 0;

  // "step 12 of the program, conv2d in layer1.0.conv1, made -inf at element 7 of %12 float32[...]"
  std::string text() const;
};

// Is told when each kernel of a run begins and when it has been issued: on the CPU, and where a GPU
// is waited for after each (GpuSettings::synchronous), that is when it is done.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void begin(size_t node) = 0;
  virtual void end(size_t node) = 0;
};

class Program {
 public:
  // Compiles the graph and prepares its kernels. Takes no memory for tensors yet. options.arenas
  // must be there. Throws what CompiledGraph() and the ops' prepare() throw.
  Program(Graph graph, const CompileOptions& options);
  // Executes a graph that others may execute too, each in slots of its own; of `options` it takes
  // the arenas and cuda_graph.
  Program(std::shared_ptr<const CompiledGraph> compiled, const CompileOptions& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Memory of the embedding program for the slots on a device, at least the slot_bytes of its plan;
  // before anything else touches them. Throws ConfigError when it is too small or not aligned,
  // Error when it is too late, or when the program has no such device.
  void use_external_slots(ExternalMemory external, Device device = {});
  // Takes the slots, the arena and the persistent tensors, if that has not happened yet.
  void bind();
  // One step: fill the inputs, run, read the outputs. Allocates nothing after bind(). Throws Error
  // when the CPU has more threads than when the program was made: scratch is planned for each.
  void run();

  // Of the runs that follow; nullptr: nobody. The kernels are then issued one by one, also where a
  // GPU would launch them as one graph.
  void observe(NodeObserver* observer) { observer_ = observer; }

  // After a run: which node of it was the first to make a NaN or an infinity, if any did. Runs the
  // same step once more from the same arguments, without updates, and looks at every result. Where
  // a parameter or an argument is not finite already, it is named instead. Slow.
  std::optional<NonFinite> find_non_finite();

  // Where argument i is put and result i is read: tensors in the slots of their device, valid while
  // the program lives; results are overwritten by the next run.
  const Tensor& input(size_t i);
  const Tensor& output(size_t i);

  const CompiledGraph& compiled() const { return compiled_; }
  // Happens in each run when the argument `ahead` has been read for the last time. Only where there
  // is one.
  const Event& prefetched_was_read() const { return *prefetched_was_read_; }
  std::byte* slots() const { return memories_.front().slots->data(); }  // after bind()

 private:
  struct Bound;
  // The bytes behind a DevicePlan.
  struct Memory {
    Arena* arena = nullptr;
    uint64_t generation = 0;  // of the arena, that addresses were computed for
    std::shared_ptr<Region> slots;
  };
  void prepare_kernels();
  void start_guard();
  void bind_slots();
  bool take_regions();
  void compute_addresses();
  void run_node(size_t s);
  void run_alone(size_t s);
  void wait_for_others(Device device);  // of the host: for all GPUs
  void wait_for_source(const Bound& bound);
  void issue();
  RawMemory& memory_of(Device device) const;
  Memory& memory_on(Device device);
  void* address(ValueId id);
  std::byte* block_address(int block);
  std::optional<NonFinite> non_finite(ValueId id);

  const std::shared_ptr<const CompiledGraph> shared_;
  const CompiledGraph& compiled_;
  const Graph& graph_;  // of compiled_
  std::shared_ptr<Arenas> arenas_;
  std::vector<Memory> memories_;  // of each plan
  std::unique_ptr<Event> prefetched_was_read_;
  bool bound_once_ = false;
  Tensors inputs_, outputs_;
  std::vector<std::unique_ptr<Bound>> bound_;
  std::unique_ptr<PlanGuard> guard_;  // with verify_plan
  NodeObserver* observer_ = nullptr;
  // On one GPU, of all nodes in order; none before the second run, and after the arena has moved.
  bool captures_ = false, has_run_ = false;
  // GPUs with copies from or to another device that may not be done; with room for all.
  std::vector<Device> pending_copies_;
  std::unique_ptr<CapturedWork> captured_;
};

}  // namespace tessera
