#include "tessera/graph/function_gradient.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/autograd.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tape.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Copies the nodes [first, last) of a graph into a graph of their own.
class Part {
 public:
  Part(const Graph& whole, size_t first, size_t last)
      : whole_(whole), first_(static_cast<int>(first)), last_(static_cast<int>(last)) {}

  // Returns the id of the value in this part. Passes a value made by an earlier node to `saved`.
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
      Node node = whole_.nodes[n];
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

// The results of fn and the leaves that they depend on.
struct Results {
  std::vector<std::shared_ptr<const GradientStop>> stops;
  std::vector<int> tracked;  // results with a gradient
  Tensors leaves;            // the leaves of these
};

Results look_behind(const Tensors& outputs) {
  Results found;
  std::unordered_set<const TensorImpl*> known;
  for (size_t i = 0; i < outputs.size(); ++i) {
    LeafDependencies behind = leaves_of(outputs[i]);
    found.stops.push_back(behind.stop.empty() ? nullptr
                                              : make_gradient_stop(std::move(behind.stop)));
    if (found.stops.back() || behind.leaves.empty()) continue;
    found.tracked.push_back(static_cast<int>(i));
    for (auto& leaf : behind.leaves)
      if (known.insert(leaf.get()).second) found.leaves.push_back(Tensor(std::move(leaf)));
  }
  return found;
}

// Splits a graph into the forward and the backward part. The nodes from `first` on are the
// gradient; the outputs are the function's results, then the gradients of the leaves.
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
    value.role = Role::external;
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

// The op on the tape for a call of a compiled function.
class CompiledCall final : public Op {
 public:
  CompiledCall(std::shared_ptr<FunctionGradient> gradient,
               std::shared_ptr<FunctionGradient::Call> call)
      : gradient_(std::move(gradient)), call_(std::move(call)) {}
  std::string_view name() const override { return "compiled function"; }
  bool is_equivalent(const Op& other) const override { return this == &other; }
  Specs infer(SpecView) const override {
    throw InternalError("compiled function: this op exists only on the tape");
  }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return gradient_->run(*call_, args.grad_outputs, args.needed);
  }

 private:
  const std::shared_ptr<FunctionGradient> gradient_;
  const std::shared_ptr<FunctionGradient::Call> call_;
};

Error overwritten(const std::string& name) {
  return Error(fmt::format(
      "compiled function: {} has been overwritten since the call, so the gradient would be wrong; "
      "take gradients before updating it",
      name.empty() ? "an argument or a saved value" : name));
}

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
  if (found.tracked.empty() || !grad_mode_enabled()) {
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
    sources.push_back(outputs[result]);
    upstream.push_back(capture.input(sources.back().spec()));
  }
  const Tensors gradients = backward(sources, upstream, leaves, CreateGraph::no);
  for (const Tensor& grad : gradients) outputs.push_back(capture.own(grad, first));
  cut(capture.finish(outputs), first, arguments.size(), function, gradient);
  function.gradient = std::move(gradient);
  return function;
}

FunctionGradient::FunctionGradient(CapturedGradient captured, const CompileOptions& options,
                                   Specs arguments)
    : captured_(std::move(captured)),
      arguments_(std::move(arguments)),
      arenas_(options.arenas),
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
      watched_.push_back(value.impl()->storage);
    }
    for (const Value& value : program_->compiled().graph.values)
      if (value.storage && value.role != Role::constant && !told.contains(value.storage.get()))
        watched_.push_back(value.storage);
  }
  program_->bind();
}

std::vector<std::shared_ptr<Storage>> FunctionGradient::copy_of_slots() const {
  const CurrentOpScope running("compiled function");
  std::vector<std::shared_ptr<Storage>> copies;
  for (const CapturedGradient::Saved& saved : captured_.saved) {
    const Storage& slot = *saved.storage;
    copies.push_back(allocate_storage(slot.bytes, slot.device));
    copy_bytes(slot.device, copies.back()->pointer, slot.device, slot.pointer, slot.bytes);
  }
  return copies;
}

void FunctionGradient::write_slots(const std::vector<std::shared_ptr<Storage>>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Storage& slot = *captured_.saved[i].storage;
    copy_bytes(slot.device, slot.pointer, slot.device, values[i]->pointer, slot.bytes);
  }
}

void FunctionGradient::keep_last_call() {
  const std::shared_ptr<Call> call = last_.lock();
  const auto slots_end = watched_.begin() + static_cast<ptrdiff_t>(captured_.saved.size());
  if (call && std::equal(watched_.begin(), slots_end, call->versions.begin(),
                         [](const auto& slot, uint64_t then) { return slot->version == then; }))
    call->saved = copy_of_slots();
  last_.reset();
}

void FunctionGradient::tie(const std::shared_ptr<FunctionGradient>& self, const Tensors& arguments,
                           const Tensors& results) {
  const auto call = std::make_shared<Call>();
  for (const auto& storage : self->watched_) call->versions.push_back(storage->version);
  self->last_ = call;
  Tensors leaves, sources;
  for (int argument : self->captured_.arguments)
    leaves.push_back(arguments.at(static_cast<size_t>(argument)));
  leaves.insert(leaves.end(), self->captured_.outside.begin(), self->captured_.outside.end());
  for (int result : self->captured_.results)
    sources.push_back(results.at(static_cast<size_t>(result)));
  record_on_tape(std::make_shared<CompiledCall>(self, call), leaves, sources);
  sources.front().impl()->node->is_function = true;
}

Tensors FunctionGradient::run(Call& call, std::span<const Tensor> upstream,
                              const std::vector<bool>& needed) {
  const ArenasInUse alone(*arenas_, arguments_);
  if (current_recorder() != nullptr)
    throw Error(
        "compiled function: it was called before the step was captured; call it in the step");
  if (grad_mode_enabled())
    throw Error(
        "compiled function: its gradient has no gradient itself; call the function in eager mode "
        "(CompileOptions::eager), or compile the whole computation, gradients included");
  const size_t slots = captured_.saved.size();
  const std::shared_ptr<Call> last = last_.lock();
  const bool in_slots = last.get() == &call;
  if (!in_slots && call.saved.size() != slots) throw overwritten("");
  for (size_t i = in_slots ? 0 : slots; i < watched_.size(); ++i)
    if (watched_[i]->version != call.versions[i]) throw overwritten(watched_[i]->name);
  for (size_t i = 0; i < captured_.results.size(); ++i) {
    const Tensor& slot = program_->input(i);
    const size_t bytes = slot.spec().bytes();
    if (upstream[i].defined())
      copy_bytes(slot.device(), slot.impl()->data(), upstream[i].device(),
                 upstream[i].impl()->data(), bytes);
    else
      context(slot.device()).fill(slot.impl()->data(), 0, bytes);
  }
  std::vector<std::shared_ptr<Storage>> now;
  if (!in_slots) now = copy_of_slots();
  Tensors gradients;
  try {
    write_slots(call.saved);
    program_->run();
    for (size_t i = 0; i < needed.size(); ++i)
      gradients.push_back(needed[i] ? copy(program_->output(i)) : Tensor());
  } catch (...) {  // for example out of memory: the gradient may be taken again
    write_slots(now);
    throw;
  }
  call.saved.clear();
  write_slots(now);
  if (in_slots) last_.reset();
  return gradients;
}

}  // namespace tessera
