#include "tessera/graph/function_gradient.h"

#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tape.h"
#include "tessera/graph/program.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// The nodes [first, last) of a graph as a graph of their own.
class Part {
 public:
  Part(const Graph& whole, size_t first, size_t last)
      : whole_(whole), first_(static_cast<int>(first)), last_(static_cast<int>(last)) {}

  // The value's name in the part. One that nodes before the part make is handed to `saved`.
  template <class F>
  ValueId value(ValueId id, F&& saved) {
    if (auto known = names_.find(id); known != names_.end()) return known->second;
    Value value = whole_.values[id];
    const bool made_here = value.producer >= first_ && value.producer < last_;
    if (made_here) {
      if (value.previous >= 0) value.previous = this->value(value.previous, saved);
    } else {
      value.previous = -1;
      if (!value.storage) saved(id, value);
    }
    graph.values.push_back(std::move(value));
    return names_[id] = static_cast<ValueId>(graph.values.size()) - 1;
  }

  template <class F>
  void add_nodes(F&& saved) {
    for (int n = first_; n < last_; ++n) {
      Node node = whole_.nodes[static_cast<size_t>(n)];
      for (ValueId& id : node.inputs) id = value(id, saved);
      for (ValueId& id : node.outputs) id = value(id, saved);
      graph.nodes.push_back(std::move(node));
    }
  }

  Graph graph;

 private:
  const Graph& whole_;
  int first_, last_;
  std::unordered_map<ValueId, ValueId> names_;
};

// What fn gave, with the leaves behind it.
struct Results {
  std::vector<std::shared_ptr<const GradientStop>> stops;
  std::vector<int> tracked;  // those that gradients can be taken of
  Tensors leaves;            // behind these
};

Results look_behind(const Tensors& outputs) {
  Results found;
  std::unordered_set<const TensorImpl*> known;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Dependence behind = dependence(outputs[i]);
    found.stops.push_back(behind.stop.empty() ? nullptr : stop_because(std::move(behind.stop)));
    if (found.stops.back() || behind.leaves.empty()) continue;
    found.tracked.push_back(static_cast<int>(i));
    for (auto& leaf : behind.leaves)
      if (known.insert(leaf.get()).second) found.leaves.push_back(Tensor(std::move(leaf)));
  }
  return found;
}

// The two parts of a graph whose nodes from `first` on are the gradient and whose outputs are the
// function's results, then the gradients of the leaves.
void cut(const Graph& whole, size_t first, size_t arguments, CapturedFunction& function,
         CapturedGradient& gradient) {
  const auto nothing = [](ValueId, Value&) {};
  Part forward(whole, 0, first), backward(whole, first, whole.nodes.size());
  for (size_t i = 0; i < arguments; ++i)
    forward.graph.inputs.push_back(forward.value(whole.inputs[i], nothing));
  forward.add_nodes(nothing);
  for (size_t i = 0; i < function.results; ++i)
    forward.graph.outputs.push_back(forward.value(whole.outputs[i], nothing));

  std::unordered_map<ValueId, int> argument_of;
  for (size_t i = 0; i < arguments; ++i) argument_of[whole.inputs[i]] = static_cast<int>(i);
  const auto save = [&](ValueId id, Value& value) {
    auto storage = std::make_shared<Storage>(value.spec.bytes(), value.spec.device);
    const auto argument = argument_of.find(id);
    if (argument != argument_of.end()) {
      gradient.saved.push_back({argument->second, true, storage});
    } else {
      gradient.saved.push_back({static_cast<int>(forward.graph.outputs.size()), false, storage});
      forward.graph.outputs.push_back(forward.value(id, nothing));
    }
    storage->name = value.name;
    value.role = Role::outside;
    value.storage = std::move(storage);
  };
  for (size_t i = arguments; i < whole.inputs.size(); ++i)
    backward.graph.inputs.push_back(backward.value(whole.inputs[i], nothing));
  backward.add_nodes(save);
  for (Node& node : backward.graph.nodes) node.phase = Phase::backward;
  for (size_t i = function.results; i < whole.outputs.size(); ++i)
    backward.graph.outputs.push_back(backward.value(whole.outputs[i], save));
  forward.graph.saved = forward.graph.outputs.size() - function.results;
  forward.graph.index();
  backward.graph.index();
  function.graph = std::move(forward.graph);
  gradient.graph = std::move(backward.graph);
}

// What stands on the tape for a call of a compiled function.
class CompiledCall final : public Op {
 public:
  CompiledCall(std::shared_ptr<FunctionGradient> gradient, uint64_t call)
      : gradient_(std::move(gradient)), call_(call) {}
  std::string_view name() const override { return "compiled function"; }
  bool same(const Op& other) const override { return this == &other; }
  Specs infer(std::span<const TensorSpec>) const override {
    throw InternalError("compiled function: it is on the tape only");
  }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return gradient_->run(call_, args.grad_outputs, args.needed);
  }

 private:
  const std::shared_ptr<FunctionGradient> gradient_;
  const uint64_t call_;
};

}  // namespace

CapturedFunction capture_function(const StepFunction& fn, const Specs& arguments,
                                  const std::vector<bool>& tracked) {
  Capture capture;
  RecorderScope recording(&capture);
  Tensors inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    inputs.push_back(capture.input(arguments[i]));
    inputs.back().impl()->leaf = i < tracked.size() && tracked[i];
  }
  Tensors outputs = fn(inputs);
  for (Tensor& output : outputs) output = capture.own(output);
  CapturedFunction function;
  function.results = outputs.size();
  Results found = look_behind(outputs);
  function.stops = std::move(found.stops);
  if (found.tracked.empty() || !tape_is_on()) {
    function.graph = capture.finish(outputs);
    return function;
  }

  CapturedGradient gradient;
  gradient.results = found.tracked;
  Tensors leaves;
  for (size_t i = 0; i < inputs.size(); ++i)
    for (const Tensor& leaf : found.leaves)
      if (leaf.impl() == inputs[i].impl()) {
        gradient.arguments.push_back(static_cast<int>(i));
        leaves.push_back(leaf);
      }
  for (const Tensor& leaf : found.leaves)
    if (leaf.impl()->recorder == nullptr) gradient.outside.push_back(leaf);
  leaves.insert(leaves.end(), gradient.outside.begin(), gradient.outside.end());
  const size_t first = capture.nodes();
  Tensors sources, upstream;
  for (int result : found.tracked) {
    sources.push_back(outputs[static_cast<size_t>(result)]);
    upstream.push_back(capture.input(sources.back().spec()));
  }
  const Tensors slopes = backward(sources, upstream, leaves, CreateGraph::no);
  for (const Tensor& slope : slopes) outputs.push_back(capture.own(slope, first));
  cut(capture.finish(outputs), first, arguments.size(), function, gradient);
  function.gradient = std::move(gradient);
  return function;
}

FunctionGradient::FunctionGradient(CapturedGradient captured, const CompileOptions& options)
    : captured_(std::move(captured)),
      program_(std::make_unique<Program>(std::move(captured_.graph), options)) {}

FunctionGradient::~FunctionGradient() = default;

void FunctionGradient::bind(Program& function) {
  if (watched_.empty()) {
    std::unordered_set<const Storage*> told;
    for (const CapturedGradient::Saved& saved : captured_.saved) {
      told.insert(saved.storage.get());
      const Tensor& value = saved.argument ? function.input(static_cast<size_t>(saved.index))
                                           : function.output(static_cast<size_t>(saved.index));
      saved.storage->pointer = value.impl()->data();
      saved.storage->keep = value.impl()->storage->keep;
      watched_.push_back({value.impl()->storage, 0});
    }
    for (const Value& value : program_->graph().values)
      if (value.storage && value.role != Role::constant && !told.contains(value.storage.get()))
        watched_.push_back({value.storage, 0});
  }
  program_->bind();
}

void FunctionGradient::tie(const std::shared_ptr<FunctionGradient>& self, const Tensors& arguments,
                           const Tensors& results) {
  ++self->calls_;
  for (Watched& watched : self->watched_) watched.version = watched.storage->version;
  Tensors leaves, sources;
  for (int argument : self->captured_.arguments)
    leaves.push_back(arguments.at(static_cast<size_t>(argument)));
  leaves.insert(leaves.end(), self->captured_.outside.begin(), self->captured_.outside.end());
  for (int result : self->captured_.results)
    sources.push_back(results.at(static_cast<size_t>(result)));
  put_on_tape(std::make_shared<CompiledCall>(self, self->calls_), leaves, sources);
}

Tensors FunctionGradient::run(uint64_t call, std::span<const Tensor> upstream,
                              const std::vector<bool>& needed) {
  if (current_recorder() != nullptr)
    throw Error(
        "compiled function: it was called before the step was captured; call it in the step");
  if (tape_is_on())
    throw Error(
        "compiled function: its gradient has no gradient itself; call the function in eager mode "
        "(CompileOptions::eager), or compile the whole computation, gradients included");
  if (call != calls_)
    throw Error(
        "compiled function: it has been called again since, which has overwritten what its "
        "gradient reads; take gradients before the next call, or compile the function twice");
  for (const Watched& watched : watched_)
    if (watched.version != watched.storage->version)
      throw Error(fmt::format(
          "compiled function: {} has been overwritten since the call, so the gradient would be "
          "wrong; take gradients before updating it",
          watched.storage->name.empty() ? "an argument or a saved value" : watched.storage->name));
  for (size_t i = 0; i < captured_.results.size(); ++i) {
    const Tensor& slot = program_->input(i);
    const size_t bytes = slot.spec().bytes();
    if (upstream[i].defined())
      copy_bytes(slot.device(), slot.impl()->data(), upstream[i].device(),
                 upstream[i].impl()->data(), bytes);
    else
      context(slot.device()).fill(slot.impl()->data(), 0, bytes);
  }
  program_->run();
  Tensors slopes;
  for (size_t i = 0; i < needed.size(); ++i)
    slopes.push_back(needed[i] ? copy(program_->output(i)) : Tensor());
  return slopes;
}

}  // namespace tessera
