// Program: a lowered graph with a kernel for each node and an address for each byte. It only runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/arena.h"
#include "tessera/graph/lifetimes.h"
#include "tessera/graph/lower.h"
#include "tessera/graph/plan_report.h"
#include "tessera/graph/slot_layout.h"

namespace tessera {

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

// What a program needs on one of its devices.
struct DevicePlan {
  Device device;
  Problem problem;
  Plan plan;
  size_t slot_bytes = 0;
  size_t arena_bytes() const { return static_cast<size_t>(plan.bytes); }
};

class Program {
 public:
  // Lowers the graph, chooses kernels, keeps to options.arena_budget and plans for options.arenas,
  // which must be there. Takes no memory for tensors yet. Throws what lower() does, and
  // BudgetTooSmall.
  Program(Graph graph, const CompileOptions& options);
  // Of a graph that has been lowered: several programs of one have slots and arenas of their own
  // and share their constants.
  Program(Lowered lowered, const CompileOptions& options);
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

  const Graph& graph() const { return graph_; }
  // Of each node.
  const std::vector<int64_t>& scratch_bytes() const { return scratch_bytes_; }
  // How node i is computed: the name of its Algorithm; empty for views.
  const std::string& algorithm(size_t i) const { return algorithms_.at(i); }
  const Lifetimes& lifetimes() const { return lifetimes_; }
  // One for each device that it runs on: GPUs first.
  const std::vector<DevicePlan>& plans() const { return plans_; }
  // Of the first of them.
  Device device() const { return plans_.front().device; }
  const Problem& problem() const { return plans_.front().problem; }
  const Plan& plan() const { return plans_.front().plan; }
  const std::string& planner() const { return planner_; }
  const std::vector<PassRecord>& passes() const { return passes_; }
  const BudgetRecord& budget() const { return budget_; }

  size_t arena_bytes() const { return plans_.front().arena_bytes(); }
  size_t slot_bytes() const { return plans_.front().slot_bytes; }
  // Where it runs on one GPU; nothing elsewhere and with verify_plan.
  const std::optional<SlotLayout>& slot_layout() const { return slot_layout_; }
  // Happens in each run when the argument `ahead` has been read for the last time. Only where there
  // is one.
  const Event& ahead_was_read() const { return *ahead_was_read_; }
  // Of argument and result i in the slots, in bytes.
  size_t input_offset(size_t i) const { return static_cast<size_t>(input_offsets_.at(i)); }
  size_t output_offset(size_t i) const;
  std::byte* slots() const { return memories_.front().slots->data(); }  // after bind()

  // Offset of block b in the arena or, for a slot, in the slots of its device.
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  struct Bound;
  // The bytes behind a DevicePlan.
  struct Memory {
    Arena* arena = nullptr;
    uint64_t generation = 0;  // of the arena, that addresses were computed for
    std::shared_ptr<Region> slots;
  };
  void choose_algorithms();
  void keep_to_budget(const CompileOptions& options);
  void prepare_kernels();
  void make_plans(const CompileOptions& options);
  void make_plan(const CompileOptions& options, DevicePlan& plan);
  void place_slots();
  bool may_run_ahead() const;
  int largest_argument() const;
  void find_last_reader();
  void start_guard();
  void bind_slots();
  bool take_regions();
  void compute_addresses();
  void run_node(size_t s);
  void run_alone(size_t s);
  void wait_for_others(Device device);  // of the host: for all GPUs
  void wait_for_source(const Bound& bound);
  void issue();
  void hand_out();
  RawMemory& memory_of(Device device) const;
  size_t index_of(Device device) const;  // in plans_; plans_.size() where there is none
  void* address(ValueId id);
  std::byte* block_address(int block);
  std::optional<NonFinite> non_finite(ValueId id);

  Graph graph_;
  std::shared_ptr<Arenas> arenas_;
  std::vector<PassRecord> passes_;
  std::vector<int64_t> scratch_bytes_;
  std::vector<std::string> algorithms_;
  BudgetRecord budget_;
  Lifetimes lifetimes_;
  std::vector<DevicePlan> plans_;
  std::vector<Memory> memories_;  // of each plan
  std::string planner_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> input_offsets_;
  std::optional<SlotLayout> slot_layout_;
  std::unique_ptr<Event> ahead_was_read_;
  size_t last_reader_ = 0;  // of the argument that comes ahead: so many nodes have run by then
  bool bound_once_ = false;
  Tensors inputs_, outputs_;
  std::vector<std::unique_ptr<Bound>> bound_;
  std::unique_ptr<PlanGuard> guard_;  // with verify_plan
  std::vector<size_t> alone_;         // of each plan: where PlanGuard::run_alone() has its slots
  NodeObserver* observer_ = nullptr;
  // On one GPU, of all nodes in order; none before the second run, and after the arena has moved.
  bool captures_ = false, has_run_ = false;
  const Settings settings_;  // of the scope that it was made in
  // GPUs with copies from or to another device that may not be done; with room for all.
  std::vector<Device> crossings_;
  std::unique_ptr<CapturedWork> captured_;
};

}  // namespace tessera
