// Program: executes a compiled graph. It has a prepared kernel for each node, memory, and an
// address for each value. Not thread-safe. Programs that share an arena run one at a time.
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

// The source of the first NaN or infinity of a run.
struct NonFinite {
  int node = -1;            // index in the program; -1: a parameter or an argument
  std::string op;           // "conv2d"; empty if node is -1
  std::string module_path;  // "layer1.0.conv1"
  std::string value;        // "%12 float32[4x8x8x16]"
  int64_t element = 0;
  double number = 0;

  // "node 12 of the program, conv2d in layer1.0.conv1, produced -inf at element 7 of %9 float32[8]"
  std::string text() const;
};

// Called when a kernel of a run begins and when it has been issued. On the CPU, and on a GPU with
// GpuSettings::synchronous, a kernel that has been issued is done.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void begin(size_t node) = 0;
  virtual void end(size_t node) = 0;
};

class Program {
 public:
  // Compiles the graph and prepares its kernels. Allocates no tensor memory. options.arenas must
  // not be null. Throws what CompiledGraph() and the ops' prepare() throw.
  Program(Graph graph, const CompileOptions& options);
  // Executes a graph that other programs may share, each in slots of its own. Reads only arenas and
  // cuda_graph of `options`.
  Program(std::shared_ptr<const CompiledGraph> compiled, const CompileOptions& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Uses `external` for the slots on a device; it must have at least the slot_bytes of that plan.
  // Call it before any other use of the slots. Throws ConfigError if the memory is too small or not
  // aligned, Error if it is too late or the program does not run on that device.
  void use_external_slots(ExternalMemory external, Device device = {});
  // Allocates the slots, the arena and the persistent tensors unless that has happened. Throws
  // OutOfMemory.
  void bind();
  // Runs one step: write the inputs, call run(), read the outputs. Allocates nothing after bind().
  // Throws Error if the CPU has more threads than when the program was made, as scratch is planned
  // per thread.
  void run();

  // Sets the observer of all later runs; nullptr removes it. While an observer is set, kernels are
  // issued one by one, even where the step would be launched as one CUDA graph.
  void observe(NodeObserver* observer) { observer_ = observer; }

  // Finds the first node of the last run that produced a NaN or an infinity, if any. Runs the step
  // again from the same arguments, without updates, and scans every result; slow. If a parameter or
  // an argument is not finite, names that instead.
  std::optional<NonFinite> find_non_finite();

  // Returns the tensor in which argument i is written, or result i is read. Both are in the slots
  // and valid as long as the program; the next run overwrites the results.
  const Tensor& input(size_t i);
  const Tensor& output(size_t i);

  const CompiledGraph& compiled() const { return compiled_; }
  // The event at which a run has read the prefetched argument (SlotLayout::prefetched) for the last
  // time. Requires such an argument.
  const Event& prefetched_was_read() const { return *prefetched_was_read_; }
  std::byte* slots() const { return memories_.front().slots->data(); }  // requires bind()

 private:
  struct Bound;
  // The memory of a DevicePlan.
  struct Memory {
    Arena* arena = nullptr;
    uint64_t generation = 0;  // arena's value when addresses were computed
    std::shared_ptr<Region> slots;
  };
  void prepare_kernels();
  void start_guard();
  void bind_slots();
  bool take_regions();
  void compute_addresses();
  void run_node(size_t s);
  void run_alone(size_t s);
  void wait_for_others(Device device);  // the host's device waits for all GPUs
  void wait_for_source(const Bound& bound);
  void issue();
  RawMemory& memory_of(Device device) const;
  Memory& memory_on(Device device);
  void* address(ValueId id);
  std::byte* block_address(int block);
  std::optional<NonFinite> non_finite(ValueId id);

  const std::shared_ptr<const CompiledGraph> shared_;
  const CompiledGraph& compiled_;
  const Graph& graph_;  // in compiled_
  std::shared_ptr<Arenas> arenas_;
  std::vector<Memory> memories_;  // one for each plan
  std::unique_ptr<Event> prefetched_was_read_;
  bool bound_once_ = false;
  Tensors inputs_, outputs_;
  std::vector<std::unique_ptr<Bound>> bound_;
  std::unique_ptr<PlanGuard> guard_;  // set with verify_plan
  NodeObserver* observer_ = nullptr;
  // Whether the step becomes a CUDA graph (one GPU only), and whether it has run once uncaptured.
  bool captures_ = false, has_run_ = false;
  // GPUs with copies from or to another device that may be in flight; reserved for all.
  std::vector<Device> pending_copies_;
  // All nodes as one CUDA graph; null before the second run and after the arena has moved.
  std::unique_ptr<CapturedWork> captured_;
};

}  // namespace tessera
