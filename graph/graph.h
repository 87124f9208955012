// Graph: one captured training step, as data: nodes (calls of ops) in the order they run, and
// values in single assignment.
//
// A persistent tensor that a node updates has one value for each version; each names the version
// before it. Passes rewrite a graph; verify() says whether it still makes sense.
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
  int producer = -1;                 // the node that makes it, or -1
  int output = 0;                    // which of its outputs
  ValueId previous = -1;             // the version of a persistent tensor that it overwrites
  std::shared_ptr<Storage> storage;  // of persistent, outside and constant values
  int64_t offset = 0;                // bytes into the storage
  std::string name;                  // of persistent values

  bool persistent() const { return is_persistent(role); }
};

enum class Phase : uint8_t { forward, backward, update };

struct Node {
  OpPtr op;
  std::vector<ValueId> inputs, outputs;
  Device device;
  std::string module_path;  // where in the model: "layer1.0.conv1"
  Phase phase = Phase::forward;
  bool recomputed = false;  // has run before: what it makes was not kept (passes/recompute.h)

  // Overwrites a persistent tensor: never dropped, merged or run twice.
  bool is_update() const;
};

struct Graph {
  // In small pieces: only the memory that is planned is asked for in large ones.
  std::deque<Value> values;
  std::deque<Node> nodes;
  std::vector<ValueId> inputs, outputs;
  size_t saved = 0;  // so many of the last outputs are kept for a gradient (function_gradient.h)

  // Where nodes run and values stand: GPUs first, in the order of their numbers, never empty.
  std::vector<Device> devices() const;
  // The specs of a node's inputs.
  Specs input_specs(const Node& node) const;
  // Puts producer and output right after nodes have been moved, replaced or dropped.
  void index();
  // For each value, the nodes that read it, in order; a graph output is read by node nodes.size().
  std::vector<std::vector<int>> users() const;
  // For each value, the value whose bytes it is a part of: itself, unless a view made it.
  std::vector<ValueId> roots() const;
  // One line a node: "%7 = conv2d(%3, %4:conv1.weight) float32[8x28x28x6] conv1"; "again" at its
  // end where the node has run before.
  std::string text() const;
  std::string value_text(ValueId id) const;  // "%4:conv1.weight"
  std::string node_text(size_t node) const;  // "step 12 (conv2d at layer1.0)", for errors
};

// Where a node is told to be: its place in the model or, outside of modules, what it updates.
std::string location_of(const Graph& graph, const Node& node);
const char* phase_name(Phase phase);  // "forward", "backward", "update"

// Nothing, or what is wrong: a value read before it is made or after it was overwritten, specs that
// are not what the op infers, broken indices. Run between passes.
std::string verify(const Graph& graph);

}  // namespace tessera
