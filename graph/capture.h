// Capture: runs a function once, on symbolic tensors, and writes down what it does.
#pragma once

#include <functional>
#include <unordered_map>

#include "tessera/engine/recorder.h"
#include "tessera/graph/graph.h"

namespace tessera {

using StepFunction = std::function<Tensors(const Tensors&)>;

// The graph of fn called with arguments of these specs. Nothing is computed and no parameter needs
// bytes. Throws what fn throws: reading a value or declaring a parameter in it is an Error.
Graph capture(const StepFunction& fn, const Specs& arguments);

class Capture final : public Recorder {
 public:
  Tensor input(const TensorSpec& spec);
  // What is handed out has a place of its own: the tensor, or a copy of what is an argument, a
  // value from outside or made before node `first`.
  Tensor own(const Tensor& output, size_t first = 0);
  size_t nodes() const { return graph_.nodes.size(); }
  Graph finish(const Tensors& outputs);

  Tensors record(const OpPtr& op, std::span<const Tensor> inputs, const Specs& outputs) override;
  Tensor record_constant(const Tensor& value) override;
  Tensor snapshot(const Tensor& tensor) override;
  uint64_t version(const Tensor& tensor) override;

 private:
  Tensor symbol(ValueId id);
  ValueId value_of(const Tensor& tensor);
  ValueId add(Value value);

  Graph graph_;
  std::unordered_map<const Storage*, ValueId> latest_;  // version of each tensor from outside
};

}  // namespace tessera
