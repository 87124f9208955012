#include "tessera/graph/capture.h"

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tape.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Eager ops before the capture ran once; gradients of the captured step would use their old values.
std::shared_ptr<const GradientStop> made_before(const TensorSpec& spec) {
  return make_gradient_stop(
      fmt::format("a tracked tensor ({}) was computed before the step was captured; pass it as an "
                  "argument, compute it in the step, or detach() it",
                  spec.text()));
}

}  // namespace

ValueId Capture::add(Value value) {
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

Tensor Capture::symbol(ValueId id) {
  auto impl = std::make_shared<TensorImpl>();
  impl->spec = graph_.values[id].spec;
  impl->recorder = this;
  impl->value = id;
  return Tensor(std::move(impl));
}

Tensor Capture::input(const TensorSpec& spec) {
  graph_.inputs.push_back(
      add({.spec = spec, .role = Role::input, .name = fmt::format("arg{}", graph_.inputs.size())}));
  return symbol(graph_.inputs.back());
}

ValueId Capture::value_of(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  if (impl.recorder == this) return impl.value;
  if (impl.recorder != nullptr)
    throw Error(fmt::format("capture: {} belongs to another captured step; pass it as an argument",
                            impl.spec.text()));
  auto found = latest_.find(impl.storage.get());
  if (found != latest_.end()) {
    const Value& known = graph_.values[found->second];
    if (known.spec != impl.spec || known.offset != impl.offset)
      throw Error(
          fmt::format("capture: the step uses two views of one outside tensor ({} and {}); create "
                      "the views inside the step",
                      known.spec.text(), impl.spec.text()));
    return found->second;
  }
  return latest_[impl.storage.get()] = add({.spec = impl.spec,
                                            .role = impl.storage->role,
                                            .storage = impl.storage,
                                            .offset = impl.offset,
                                            .name = impl.storage->name});
}

Tensors Capture::record(const OpPtr& op, std::span<const Tensor> inputs, const Specs& outputs) {
  Node node;
  node.op = op;
  node.device = current_device();
  node.module_path = current_module_path();
  node.phase = in_backward() ? Phase::backward : Phase::forward;
  for (const Tensor& input : inputs) node.inputs.push_back(value_of(input));
  for (size_t o = 0; o < outputs.size(); ++o) {
    Value value;
    value.spec = outputs[o];
    int updates = op->updates(static_cast<int>(o));
    if (updates >= 0) {
      ValueId old = node.inputs[updates];
      const Value& before = graph_.values[old];
      if (!before.persistent())
        throw Error(
            fmt::format("{}: updates input {} ({}), which is not a parameter, buffer or optimizer "
                        "state; declare it in a Store",
                        op->name(), updates, before.spec.text()));
      if (latest_.at(before.storage.get()) != old)
        throw Error(fmt::format("{}: '{}' has been updated since this version was read", op->name(),
                                before.name));
      value = before;
      value.previous = old;
      node.phase = Phase::update;
    }
    value.producer = static_cast<int>(graph_.nodes.size());
    node.outputs.push_back(add(std::move(value)));
    const Value& added = graph_.values.back();
    if (updates >= 0) latest_[added.storage.get()] = node.outputs.back();
  }
  graph_.nodes.push_back(std::move(node));
  Tensors symbols;
  for (ValueId id : graph_.nodes.back().outputs) symbols.push_back(symbol(id));
  return symbols;
}

Tensor Capture::record_constant(const Tensor& tensor) {
  if (tensor.impl()->recorder != nullptr) return tensor;
  const RecorderScope now(nullptr);
  const Tensor fixed = copy(tensor);
  return symbol(
      add({.spec = fixed.spec(), .role = Role::constant, .storage = fixed.impl()->storage}));
}

Tensor Capture::snapshot(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  if (impl.recorder == this) return tensor;
  Tensor pinned = symbol(value_of(tensor));
  pinned.impl()->leaf = impl.leaf;
  if (impl.leaf) pinned.impl()->snapshot_of = tensor.shared();
  pinned.impl()->stop = impl.stop;
  if (impl.node) pinned.impl()->stop = made_before(impl.spec);
  return pinned;
}

uint64_t Capture::version(const Tensor& tensor) {
  ValueId id = value_of(tensor);
  const Storage* storage = graph_.values[id].storage.get();
  auto found = latest_.find(storage);
  return static_cast<uint64_t>(found == latest_.end() ? id : found->second);
}

Tensor Capture::own(const Tensor& output, size_t first) {
  const ValueId id = value_of(output);
  const Value& value = graph_.values[id];
  if (value.role != Role::intermediate) return copy(output);
  return value.producer < static_cast<int>(first) ? copy(output) : output;
}

Graph Capture::finish(const Tensors& outputs) {
  for (const Tensor& output : outputs) graph_.outputs.push_back(value_of(own(output)));
  graph_.index();
  return std::move(graph_);
}

Graph capture(const StepFunction& fn, const Specs& arguments) {
  Capture capture;
  RecorderScope recording(&capture);
  Tensors inputs;
  for (const TensorSpec& spec : arguments) inputs.push_back(capture.input(spec));
  return capture.finish(fn(inputs));
}

}  // namespace tessera
