#include "tessera/engine/autograd.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/recorder.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tape.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

thread_local bool no_grad = false;
thread_local bool backward_now = false;
std::atomic<uint64_t> node_count{0};

std::shared_ptr<const GradientStop> stop_of(const Op& op, const char* why) {
  return make_gradient_stop(fmt::format("{} {}; use detach() where no gradient should flow",
                                        op_at(op.name(), current_module_path()), why));
}

std::string freed_text(const TapeNode& node) {
  return fmt::format(
      "the tape of {} was freed by an earlier call of gradients(); run the forward pass "
      "again, or pass CreateGraph::yes to the earlier call",
      op_at(node.op->name(), node.module_path));
}

uint64_t version_of(const Tensor& tensor) {
  if (Recorder* recorder = current_recorder()) return recorder->version(tensor);
  return tensor.impl()->storage ? tensor.impl()->storage->version : 0;
}

// Keeps the tensors whose bit is set, with their current version.
void save(std::span<const Tensor> tensors, uint32_t mask, Tensors& kept,
          std::vector<uint64_t>& versions) {
  kept.resize(tensors.size());
  versions.resize(tensors.size(), 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    kept[i] = detach(tensors[i]);
    versions[i] = version_of(kept[i]);
  }
}

void check_versions(const TapeNode& node, const Tensors& kept,
                    const std::vector<uint64_t>& versions, const char* what) {
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i].defined() || version_of(kept[i]) == versions[i]) continue;
    const Storage* storage = kept[i].impl()->storage.get();
    throw Error(fmt::format(
        "{}: {} {} ({}{}{}) has been overwritten since the forward pass, so its gradient would be "
        "wrong; take gradients before updating it",
        op_at(node.op->name(), node.module_path), what, i, storage ? storage->name : "",
        storage && !storage->name.empty() ? " " : "", kept[i].spec().text()));
  }
}

// Adds on the device of b, which may differ from that of the op: the gradient of a copy is a copy
// back.
Tensor accumulate(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  const DeviceScope device(b.device());
  return a + b;
}

// A gradient has the dtype of its tensor.
Tensor rounded_like(const Tensor& grad, DType dtype) {
  if (grad.dtype() == dtype) return grad;
  const DeviceScope device(grad.device());
  return cast(grad, dtype);
}

// The gradient of the 16-bit form of float32 tensors, such as the filters of a convolution, stays
// float32 if it is: the filters receive it unrounded.
bool keeps_float32(const Edge& edge, const TensorSpec& tensor) {
  return edge.node && is_half(tensor.dtype) &&
         std::ranges::none_of(edge.node->input_specs,
                              [](const TensorSpec& from) { return is_half(from.dtype); });
}

// Returns a saved tensor tracked as in the forward pass.
Tensor tracked_again(const Tensor& saved, const Edge& edge) {
  if (!saved.defined() || (!edge.leaf && !edge.node) || !is_float(saved.dtype())) return saved;
  Tensor handle = detach(saved);
  handle.impl()->leaf = edge.leaf != nullptr;
  handle.impl()->snapshot_of = edge.leaf;
  handle.impl()->node = edge.node;
  handle.impl()->output = edge.output;
  return handle;
}

Edge edge_of(const std::shared_ptr<TensorImpl>& impl) {
  // A snapshot handle refers to its leaf.
  if (impl->leaf) return {nullptr, impl->snapshot_of ? impl->snapshot_of : impl, 0, nullptr};
  return {impl->node, nullptr, impl->output, impl->stop};
}

// A leaf, or output `second` of an op on the tape.
using Source = std::pair<const void*, int>;
Source source_of(const Edge& edge) {
  if (edge.leaf) return {edge.leaf.get(), 0};
  return {edge.node.get(), edge.output};
}

// The nodes that lead to wanted sources. Iterative: networks are deep.
class Reach {
 public:
  explicit Reach(std::span<const Tensor> wrt) {
    for (size_t i = 0; i < wrt.size(); ++i)
      wanted_[source_of(edge_of(wrt[i].shared()))].push_back(i);
  }

  bool wants(const Edge& edge) const {
    return (edge.node && leads_on(*edge.node)) || wants(source_of(edge));
  }
  bool wants(const Source& source) const { return wanted_.contains(source); }
  // Returns the places in wrt of a wanted source.
  const std::vector<size_t>& places(const Source& source) const { return wanted_.at(source); }
  // Returns how many gradients of this leaf are still to come, after one of them.
  int rest_after_one(const Source& leaf) { return --users_[leaf]; }
  void add_user(const Edge& edge) {
    if (edge.leaf) ++users_[source_of(edge)];
  }
  // Returns whether an input of the node is wanted or leads to a wanted source.
  bool leads_on(const TapeNode& node) const { return reaches_.at(&node); }

  // Throws Error if a stop precedes root: the gradient beyond it is unknown.
  void visit(TapeNode* root) {
    std::vector<TapeNode*> stack{root};
    while (!stack.empty()) {
      TapeNode* node = stack.back();
      bool ready = true;
      if (!reaches_.contains(node)) {
        for (const Edge& edge : node->edges) {
          if (edge.stop) throw Error("gradients: " + edge.stop->reason);
          if (edge.node == nullptr || reaches_.contains(edge.node.get())) continue;
          stack.push_back(edge.node.get());
          ready = false;
        }
      }
      if (!ready) continue;
      stack.pop_back();
      if (reaches_.contains(node)) continue;
      bool any = false;
      for (const Edge& edge : node->edges) {
        any = any || wants(edge);
        add_user(edge);
      }
      reaches_[node] = any;
    }
  }

 private:
  std::map<Source, std::vector<size_t>> wanted_;  // and their places in wrt
  std::map<Source, int> users_;                   // the nodes that use a leaf
  std::unordered_map<const TapeNode*, bool> reaches_;
};

class Backward {
 public:
  Backward(std::span<const Tensor> wrt, bool create_graph, const GradientSink& sink)
      : wrt_(wrt), reach_(wrt), create_graph_(create_graph), sink_(sink), passed_(wrt.size()) {}

  // An undefined upstream gradient means ones.
  void start(std::span<const Tensor> outputs, std::span<const Tensor> upstream) {
    for (const Tensor& output : outputs) {
      const auto& impl = output.shared();
      if (impl->stop) throw Error("gradients: " + impl->stop->reason);
      if (!impl->tracked())
        throw Error(fmt::format(
            "gradients: the loss ({}) depends on no tracked tensor; it was computed in a "
            "NoGradScope or from untracked tensors only",
            output.spec().text()));
      if (impl->node) reach_.visit(impl->node.get());
      reach_.add_user(edge_of(impl));
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      arrive(edge_of(outputs[i].shared()), upstream[i].defined()
                                               ? upstream[i]
                                               : full(outputs[i].shape(), 1.0, outputs[i].dtype()));
  }

  void run() {
    while (!pending_.empty()) {
      auto last = std::prev(pending_.end());
      Pending pending = std::move(last->second);
      pending_.erase(last);
      step(pending.node, pending.grads);
    }
    for (size_t i = 0; i < wrt_.size(); ++i)
      if (!passed_[i]) sink_(i, zeros(wrt_[i].shape(), wrt_[i].dtype()));
  }

 private:
  struct Pending {
    std::shared_ptr<TapeNode> node;
    Tensors grads;
  };

  // Passes on the gradient of a wanted source, which is complete.
  void pass(const Source& source, Tensor grad) {
    static const auto untracked = make_gradient_stop(
        "the tensor depends on the result of an earlier gradients() without CreateGraph::yes; pass "
        "CreateGraph::yes to the earlier call, or detach() its result");
    const DeviceScope device(grad.device());
    const std::vector<size_t>& places = reach_.places(source);
    grad = rounded_like(grad, wrt_[places.front()].dtype());
    if (!create_graph_) {
      grad = detach(grad);
      grad.impl()->stop = untracked;
    }
    for (size_t place : places) {
      passed_[place] = true;
      sink_(place, place == places.back() ? std::move(grad) : grad);
    }
  }

  void arrive(const Edge& edge, const Tensor& grad) {
    if (edge.leaf) {
      if (!reach_.wants(edge)) return;  // an output that is a leaf
      const Source leaf = source_of(edge);
      auto sum = sums_.try_emplace(leaf).first;
      sum->second = accumulate(sum->second, grad);
      if (reach_.rest_after_one(leaf) == 0) pass(leaf, std::move(sums_.extract(sum).mapped()));
      return;
    }
    Pending& pending = pending_[edge.node->order];
    if (!pending.node) {
      pending.node = edge.node;
      pending.grads.resize(edge.node->output_specs.size());
    }
    Tensor& sum = pending.grads[edge.output];
    sum = accumulate(sum, grad);
  }

  // Keeps the gradients of wanted outputs, which are complete now. Returns false if there are none.
  bool keep_wanted(const TapeNode& node, const Tensors& grads) {
    bool any = false;
    for (size_t o = 0; o < grads.size(); ++o) {
      const Source source{&node, static_cast<int>(o)};
      if (!reach_.wants(source)) continue;
      any = true;
      if (grads[o].defined()) pass(source, grads[o]);
      for (size_t other = 0; node.is_function && other < grads.size(); ++other)
        if (other != o && grads[other].defined())
          throw Error(
              "gradients: one result of a compiled function cannot be differentiated with respect "
              "to another result of the same call, which is a single op on the tape; compute the "
              "gradients in the function and return them");
    }
    return any;
  }

  void step(const std::shared_ptr<TapeNode>& shared, Tensors& grads) {
    TapeNode& node = *shared;
    if (keep_wanted(node, grads) && !reach_.leads_on(node)) return;
    if (node.released) throw Error("gradients: " + freed_text(node));
    DeviceScope device(node.device);
    ModulePathReset module_path(node.module_path);
    check_versions(node, node.inputs, node.input_versions, "input");
    check_versions(node, node.outputs, node.output_versions, "output");
    Tensors inputs = node.inputs, outputs = node.outputs;
    if (create_graph_) {
      for (size_t i = 0; i < inputs.size(); ++i)
        inputs[i] = tracked_again(inputs[i], node.edges[i]);
      for (size_t i = 0; i < outputs.size(); ++i)
        outputs[i] = tracked_again(outputs[i], {shared, nullptr, static_cast<int>(i), nullptr});
    }
    GradArgs args{inputs, outputs, grads, node.input_specs, node.output_specs, {}};
    for (const Edge& edge : node.edges) args.needed.push_back(reach_.wants(edge));
    Tensors input_grads = node.op->grad(args);
    input_grads.resize(node.edges.size());
    grads.clear();
    inputs.clear();
    outputs.clear();
    const std::vector<Edge>& edges = node.edges;  // kept, so that a later call finds this node
    if (!create_graph_) {
      node.inputs.clear();
      node.outputs.clear();
      node.released = true;
    }
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!args.needs(static_cast<int>(i))) continue;
      if (!input_grads[i].defined())
        throw Error(
            fmt::format("{}: its grad() must return a gradient for input {} ({}), but returns an "
                        "undefined tensor",
                        op_at(node.op->name(), node.module_path), i, node.input_specs[i].text()));
      const TensorSpec &given = input_grads[i].spec(), &input = node.input_specs[i];
      if (given.shape != input.shape ||
          (given.dtype != input.dtype && !are_mixable(given.dtype, input.dtype)))
        throw ShapeError(
            fmt::format("{}: its grad() must return a gradient like input {}, {}, but returns {}; "
                        "sum or cast() the gradient",
                        op_at(node.op->name(), node.module_path), i, input.text(), given.text()));
      Tensor grad = std::exchange(input_grads[i], Tensor());
      if (!keeps_float32(edges[i], input)) grad = rounded_like(grad, input.dtype);
      arrive(edges[i], grad);
    }
  }

  const std::span<const Tensor> wrt_;
  Reach reach_;
  const bool create_graph_;
  const GradientSink& sink_;
  std::vector<bool> passed_;             // to the sink, by place in wrt
  std::map<uint64_t, Pending> pending_;  // by order of recording; the last runs next
  std::map<Source, Tensor> sums_;        // for leaves whose gradient is incomplete
};

}  // namespace

TapeNode::~TapeNode() {
  std::vector<Edge> behind = std::move(edges);
  while (!behind.empty()) {
    const std::shared_ptr<TapeNode> node = std::move(behind.back().node);
    behind.pop_back();
    if (node.use_count() == 1)
      std::move(node->edges.begin(), node->edges.end(), std::back_inserter(behind));
  }
}

bool in_backward() { return backward_now; }
bool grad_mode_enabled() { return !no_grad; }

std::shared_ptr<const GradientStop> make_gradient_stop(std::string reason) {
  return std::make_shared<GradientStop>(GradientStop{std::move(reason)});
}

NoGradScope::NoGradScope() : ValueScope(no_grad, true) {}

bool should_record(std::span<const Tensor> inputs) {
  if (no_grad) return false;
  for (const Tensor& input : inputs)
    if (input.impl()->tracked() && is_float(input.dtype())) return true;
  return false;
}

void record_on_tape(const OpPtr& op, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs) {
  auto node = std::make_shared<TapeNode>();
  node->op = op;
  node->order = node_count++;
  node->device = current_device();
  node->module_path = current_module_path();
  for (const Tensor& input : inputs) {
    node->input_specs.push_back(input.spec());
    node->edges.push_back(edge_of(input.shared()));
  }
  Saved saved = op->saved();
  save(inputs, saved.inputs, node->inputs, node->input_versions);
  save(outputs, saved.outputs, node->outputs, node->output_versions);
  for (size_t i = 0; i < outputs.size(); ++i) {
    node->output_specs.push_back(outputs[i].spec());
    if (!is_float(outputs[i].dtype())) {
      outputs[i].impl()->stop = stop_of(*op, "returns integers, which have no gradient");
      continue;
    }
    outputs[i].impl()->node = node;
    outputs[i].impl()->output = static_cast<int>(i);
  }
}

void stop_gradients(const Op& op, bool tracked, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs) {
  if (no_grad) return;
  std::shared_ptr<const GradientStop> stop;
  for (const Tensor& input : inputs)
    if (!stop) stop = input.impl()->stop;
  if (!stop && tracked) stop = stop_of(op, "has no gradient");
  if (!stop) return;
  for (const Tensor& output : outputs) output.impl()->stop = stop;
}

LeafDependencies leaves_of(const Tensor& tensor) {
  LeafDependencies found;
  std::unordered_set<const void*> seen;
  std::vector<Edge> stack{edge_of(tensor.shared())};
  while (!stack.empty()) {
    const Edge edge = std::move(stack.back());
    stack.pop_back();
    if (edge.stop && found.stop.empty()) found.stop = edge.stop->reason;
    if (edge.leaf && seen.insert(edge.leaf.get()).second) found.leaves.push_back(edge.leaf);
    if (!edge.node || !seen.insert(edge.node.get()).second) continue;
    if (edge.node->released && found.stop.empty()) found.stop = freed_text(*edge.node);
    stack.insert(stack.end(), edge.node->edges.rbegin(), edge.node->edges.rend());
  }
  return found;
}

Tensor requires_grad(const Tensor& x) {
  if (!is_float(x.dtype()))
    throw ShapeError(fmt::format(
        "requires_grad: only floating-point tensors have gradients, but x is {}", x.spec().text()));
  if (x.impl()->leaf) return x;
  if (x.impl()->node || x.impl()->stop)
    throw Error(
        fmt::format("requires_grad: {} already depends on tracked tensors, whose gradients would "
                    "stop here; pass it to gradients() as it is, or detach() it first",
                    x.spec().text()));
  Tensor handle = detach(x);
  handle.impl()->leaf = true;
  return handle;
}

static void check_loss(const Tensor& loss, const Tensor& upstream, std::span<const Tensor> wrt) {
  if (!upstream.defined() && loss.elements() != 1)
    throw ShapeError(
        fmt::format("gradients: the loss must have one element, but is {}; pass an upstream "
                    "gradient, or take the mean",
                    loss.spec().text()));
  if (upstream.defined() && upstream.spec() != loss.spec())
    throw ShapeError(
        fmt::format("gradients: the upstream gradient must be like the loss ({}), but is {}",
                    loss.spec().text(), upstream.spec().text()));
  for (const Tensor& x : wrt) {
    if (x.impl()->stop) throw Error("gradients: " + x.impl()->stop->reason);
    if (!x.impl()->tracked())
      throw Error(fmt::format("gradients: {} is not tracked; use a parameter or requires_grad(x)",
                              x.spec().text()));
  }
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> upstream,
              std::span<const Tensor> wrt, CreateGraph create_graph, const GradientSink& sink) {
  const bool differentiated = create_graph == CreateGraph::yes;
  const ValueScope<bool> no_tape(no_grad, no_grad || !differentiated), flag(backward_now, true);
  Backward backward(wrt, differentiated, sink);
  backward.start(outputs, upstream);
  backward.run();
}

Tensors backward(std::span<const Tensor> outputs, std::span<const Tensor> upstream,
                 std::span<const Tensor> wrt, CreateGraph create_graph) {
  Tensors result(wrt.size());
  backward(outputs, upstream, wrt, create_graph,
           [&](size_t i, Tensor gradient) { result[i] = std::move(gradient); });
  return result;
}

void gradients(const Tensor& loss, std::span<const Tensor> wrt, const GradientSink& sink) {
  check_loss(loss, {}, wrt);
  const Tensor ones;
  backward(std::span(&loss, 1), std::span(&ones, 1), wrt, CreateGraph::no, sink);
}

Tensors gradients(const Tensor& loss, std::span<const Tensor> wrt, const Tensor& upstream,
                  CreateGraph create_graph) {
  check_loss(loss, upstream, wrt);
  return backward(std::span(&loss, 1), std::span(&upstream, 1), wrt, create_graph);
}

}  // namespace tessera
