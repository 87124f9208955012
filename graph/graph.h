// Graph: one captured training step as data: nodes (calls of ops) in execution order, and values in
// SSA form.
//
// A persistent tensor that a node updates has one value per version, which refers to the version
// before it. Passes rewrite a graph; verify() checks it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"

namespace tessera {

using ValueId = int;

struct Value {
  TensorSpec spec;
  Role role = Role::intermediate;
  int producer = -1;                      // index of the node that computes it, or -1
  int output = 0;                         // which output of that node
  ValueId previous = -1;                  // version of a persistent tensor that it overwrites
  std::shared_ptr<Storage> storage = {};  // set for persistent, external and constant values
  int64_t offset = 0;                     // bytes into the storage
  std::string name = {};                  // set for persistent values

  // Returns whether a Store keeps the tensor from step to step.
  bool persistent() const {
    return role == Role::parameter || role == Role::buffer || role == Role::optimizer_state;
  }
};

// Returns whether one can be computed in place of the other, element by element.
inline bool same_width(const Value& a, const Value& b) {
  return size_of(a.spec.dtype) == size_of(b.spec.dtype);
}

enum class Phase : uint8_t { forward, backward, update };

struct Node {
  OpPtr op;
  std::vector<ValueId> inputs, outputs;
  Device device;
  std::string module_path;  // "layer1.0.conv1"
  Phase phase = Phase::forward;
  bool recomputed = false;  // runs again: its values were not kept (arena_budget.h)

  // Returns true if the node overwrites a persistent tensor: it is never dropped, merged or
  // repeated.
  bool is_update() const;
  // Returns true if each output is a view of an input.
  bool only_views() const;
};

struct Graph {
  // Deques, which allocate in small chunks: only planned memory is allocated in large blocks.
  std::deque<Value> values;
  std::deque<Node> nodes;
  std::vector<ValueId> inputs, outputs;
  size_t saved = 0;  // number of last outputs that are kept for a gradient (function_gradient.h)

  // Returns the devices of nodes and values: GPUs first, by index; never empty.
  std::vector<Device> devices() const;
  Specs input_specs(const Node& node) const;
  // Updates Value::producer and Value::output. Call it after nodes were moved, replaced or dropped.
  void index();
  // Returns for each value the nodes that read it, in order. Node nodes.size() stands for a graph
  // output.
  std::vector<std::vector<int>> users() const;
  // Returns for each value the value whose bytes it is a part of: itself unless it is a view.
  std::vector<ValueId> roots() const;
  // Returns one line per node: "%7 = conv2d(%3, %4:conv1.weight) float32[8x28x28x6] conv1",
  // followed by "recomputed" if the node is recomputed.
  std::string text() const;
  std::string value_text(ValueId id) const;      // "%4:conv1.weight"
  std::string value_and_spec(ValueId id) const;  // "%4:conv1.weight float32[8x3x3x6]"
  std::string node_text(size_t node) const;      // "node 12 (conv2d at layer1.0)", for errors
};

// Returns the location that reports show for a node: its module path or, outside of modules, the
// name of the tensor that it updates.
std::string location_of(const Graph& graph, const Node& node);
const char* phase_name(Phase phase);  // "forward", "backward", "update"

// Returns the first fault, or an empty string: a value read before it is computed or after it was
// overwritten, specs other than infer() returns, wrong indices. Run between passes.
std::string verify(const Graph& graph);

}  // namespace tessera
