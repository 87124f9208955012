// Capture: runs a function once on symbolic tensors and records its ops as a graph.
#pragma once

#include <functional>
#include <unordered_map>

#include "tessera/engine/recorder.h"
#include "tessera/graph/graph.h"

namespace tessera {

using StepFunction = std::function<Tensors(const Tensors&)>;

// Returns the graph of fn for arguments of these specs. Computes nothing; parameters need not be
// materialized. Throws what fn throws; reading a tensor's elements or declaring a parameter in fn
// is an Error.
Graph capture(const StepFunction& fn, const Specs& arguments);

class Capture final : public Recorder {
 public:
  Tensor input(const TensorSpec& spec);
  // Returns a tensor that can be a graph output: `output` itself, or a copy if it is an argument,
  // an external value or the result of a node before `first`.
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
  std::unordered_map<const Storage*, ValueId> latest_;  // latest version of each external tensor
};

}  // namespace tessera
