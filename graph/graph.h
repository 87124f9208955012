// Graph: one captured step, as data. Values in single assignment, steps in the order they run.
//
// A persistent tensor that a step updates has one value for each version; each names the version
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

enum class Kind : uint8_t {
  input,      // an argument of the step
  parameter,  // persistent, trained
  state,      // persistent, not trained: optimizer state, running statistics
  outside,    // another tensor that the step reads: its bytes are read anew in every run
  constant,   // fixed at capture
  made,       // by a step
};

struct Value {
  TensorSpec spec;
  Kind kind = Kind::made;
  int producer = -1;                 // the step that makes it, or -1
  int output = 0;                    // which of its outputs
  ValueId previous = -1;             // the version of a persistent tensor that it overwrites
  std::shared_ptr<Storage> storage;  // of persistent, outside and constant values
  int64_t offset = 0;                // bytes into the storage
  std::string name;                  // of persistent values

  bool persistent() const { return kind == Kind::parameter || kind == Kind::state; }
};

enum class Phase : uint8_t { forward, backward, update };

struct GraphStep {
  OpPtr op;
  std::vector<ValueId> inputs, outputs;
  Device device;
  std::string place;  // where in the model: "layer1.0.conv1"
  Phase phase = Phase::forward;
};

struct Graph {
  // In small pieces: only the memory that is planned is asked for in large ones.
  std::deque<Value> values;
  std::deque<GraphStep> steps;
  std::vector<ValueId> inputs, outputs;

  // The specs of a step's inputs.
  Specs input_specs(const GraphStep& step) const;
  // Puts producer and output right after steps have been moved, replaced or dropped.
  void index();
  // For each value, the steps that read it, in order; a graph output is read by step steps.size().
  std::vector<std::vector<int>> readers() const;
  // For each value, the value whose bytes it is a part of: itself, unless a view made it.
  std::vector<ValueId> roots() const;
  // One line a step: "%7 = conv2d(%3, %4:conv1.weight) float32[8x28x28x6] conv1".
  std::string text() const;
  std::string value_text(ValueId id) const;  // "%4:conv1.weight"
};

// Nothing, or what is wrong: a value read before it is made or after it was overwritten, specs that
// are not what the op infers, broken indices. Run between passes.
std::string verify(const Graph& graph);

}  // namespace tessera
