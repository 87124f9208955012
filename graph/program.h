// Program: a lowered graph with a kernel for each node and an address for each byte. It only runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/arena.h"
#include "tessera/graph/lifetimes.h"
#include "tessera/graph/lower.h"

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

class Program {
 public:
  // Lowers the graph, chooses kernels and plans for options.arena, which must be there. Takes no
  // memory for tensors yet. Throws what lower() does.
  Program(Graph graph, const CompileOptions& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Memory of the embedding program for the slots, at least slot_bytes(); before anything else
  // touches them. Throws ConfigError when it is too small or not aligned, Error when it is too
  // late.
  void use_external_slots(ExternalMemory external);
  // Takes the slots, the arena and the persistent tensors, if that has not happened yet.
  void bind();
  // One step: fill the inputs, run, read the outputs. Allocates nothing after bind(). Throws Error
  // when the CPU has more threads than when the program was made: scratch is planned for each.
  void run();

  // After a run: which node of it was the first to make a NaN or an infinity, if any did. Runs the
  // same step once more from the same arguments, without updates, and looks at every result. Where
  // a parameter or an argument is not finite already, it is named instead. Slow; for the CPU.
  std::optional<NonFinite> find_non_finite();

  // Where argument i is put and result i is read: tensors in the slots, valid while the program
  // lives; results are overwritten by the next run.
  const Tensor& input(size_t i);
  const Tensor& output(size_t i);

  const Graph& graph() const { return graph_; }
  Device device() const;  // that its steps run on
  const Lifetimes& lifetimes() const { return lifetimes_; }
  const Problem& problem() const { return problem_; }
  const Plan& plan() const { return plan_; }
  const std::string& planner() const { return planner_; }
  const std::vector<PassRecord>& passes() const { return passes_; }

  size_t arena_bytes() const { return static_cast<size_t>(plan_.bytes); }
  size_t slot_bytes() const { return slot_bytes_; }
  // Offset of block b in the arena or, for a slot, in the slots.
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  struct Bound;
  void choose_kernels();
  void make_plan(const CompileOptions& options);
  void place_slots();
  void start_guard();
  void bind_slots();
  void take_regions();
  void hand_out(std::shared_ptr<Region> slots);
  void* address(ValueId id);
  std::optional<NonFinite> non_finite(ValueId id);

  Graph graph_;
  std::shared_ptr<Arena> arena_;
  uint64_t generation_ = 0;
  int threads_ = 0;
  std::vector<PassRecord> passes_;
  std::vector<int64_t> scratch_bytes_;
  Lifetimes lifetimes_;
  Problem problem_;
  Plan plan_;
  std::string planner_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> input_offsets_;
  size_t slot_bytes_ = 0;
  std::shared_ptr<Region> slots_;
  Tensors inputs_, outputs_;
  std::vector<std::unique_ptr<Bound>> bound_;
  std::unique_ptr<PlanGuard> guard_;  // with verify_plan
};

}  // namespace tessera
