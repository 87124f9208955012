#include "tessera/engine/autograd.h"

#include <atomic>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/recorder.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/tape.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

thread_local bool no_grad = false;
thread_local bool backward_now = false;
std::atomic<uint64_t> node_count{0};

uint64_t version_of(const Tensor& tensor) {
  if (Recorder* recorder = current_recorder()) return recorder->version(tensor);
  return tensor.impl()->storage ? tensor.impl()->storage->version : 0;
}

// Keeps the tensors whose bit is set, with the version they have now.
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
        "{}{}{}: {} {} ({}{}{}) has been overwritten since the forward pass, so its gradient would "
        "be wrong; take gradients before updating it",
        node.op->name(), node.module_path.empty() ? "" : " at ", node.module_path, what, i,
        storage ? storage->name : "", storage && !storage->name.empty() ? " " : "",
        kept[i].spec().text()));
  }
}

Tensor accumulate(const Tensor& a, const Tensor& b) { return a.defined() ? a + b : b; }

// Which nodes lead to a wanted leaf. Iterative: networks are deep.
class Reach {
 public:
  explicit Reach(std::span<const Tensor> wrt) {
    for (const Tensor& leaf : wrt) leaves_.insert(leaf.impl());
  }

  bool wants(const Edge& edge) const {
    return edge.leaf ? leaves_.contains(edge.leaf.get())
                     : edge.node != nullptr && reaches_.at(edge.node.get());
  }

  void visit(TapeNode* root) {
    std::vector<TapeNode*> stack{root};
    while (!stack.empty()) {
      TapeNode* node = stack.back();
      bool ready = true;
      if (!reaches_.contains(node)) {
        for (const Edge& edge : node->edges) {
          if (edge.node == nullptr || reaches_.contains(edge.node.get())) continue;
          stack.push_back(edge.node.get());
          ready = false;
        }
      }
      if (!ready) continue;
      stack.pop_back();
      if (reaches_.contains(node)) continue;
      bool any = false;
      for (const Edge& edge : node->edges) any = any || wants(edge);
      reaches_[node] = any;
    }
  }

 private:
  std::unordered_set<const TensorImpl*> leaves_;
  std::unordered_map<const TapeNode*, bool> reaches_;
};

class Backward {
 public:
  explicit Backward(std::span<const Tensor> wrt) : reach_(wrt) {}

  void start(const Tensor& loss, const Tensor& upstream) {
    const TensorImpl& impl = *loss.impl();
    if (impl.node == nullptr) {
      leaf_grads_[&impl] = upstream;
      return;
    }
    reach_.visit(impl.node.get());
    arrive(Edge{impl.node, nullptr, impl.output}, upstream);
  }

  void run() {
    while (!pending_.empty()) {
      auto last = std::prev(pending_.end());
      Pending pending = std::move(last->second);
      pending_.erase(last);
      step(*pending.node, pending.grads);
    }
  }

  Tensor gradient_of(const Tensor& leaf) const {
    auto found = leaf_grads_.find(leaf.impl());
    return found == leaf_grads_.end() ? Tensor() : found->second;
  }

 private:
  struct Pending {
    std::shared_ptr<TapeNode> node;
    Tensors grads;
  };

  void arrive(const Edge& edge, const Tensor& grad) {
    if (edge.leaf) {
      Tensor& sum = leaf_grads_[edge.leaf.get()];
      sum = accumulate(sum, grad);
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

  void step(TapeNode& node, Tensors& grads) {
    if (node.released)
      throw Error(
          fmt::format("gradients: the tape of {} has been let go by an earlier call; run "
                      "the forward pass again",
                      node.op->name()));
    DeviceScope device(node.device);
    ModulePathReset module_path(node.module_path);
    check_versions(node, node.inputs, node.input_versions, "input");
    check_versions(node, node.outputs, node.output_versions, "output");
    GradArgs args{node.inputs, node.outputs, grads, node.input_specs, node.output_specs, 0};
    for (size_t i = 0; i < node.edges.size(); ++i)
      if (reach_.wants(node.edges[i])) args.needed |= 1u << i;
    Tensors input_grads = node.op->grad(args);
    grads.clear();
    node.inputs.clear();
    node.outputs.clear();
    node.released = true;
    std::vector<Edge> edges = std::move(node.edges);
    for (size_t i = 0; i < edges.size() && i < input_grads.size(); ++i) {
      if (!args.needs(static_cast<int>(i)) || !input_grads[i].defined()) continue;
      if (input_grads[i].shape() != node.input_specs[i].shape)
        throw InternalError(fmt::format("{}: the gradient of input {} is {}, the input {}",
                                        node.op->name(), i, input_grads[i].spec().text(),
                                        node.input_specs[i].text()));
      arrive(edges[i], input_grads[i]);
      input_grads[i] = Tensor();
    }
  }

  Reach reach_;
  std::map<uint64_t, Pending> pending_;  // by order of recording; the last one runs next
  std::unordered_map<const TensorImpl*, Tensor> leaf_grads_;
};

}  // namespace

bool in_backward() { return backward_now; }

NoGradScope::NoGradScope() : outer_(no_grad) { no_grad = true; }
NoGradScope::~NoGradScope() { no_grad = outer_; }

bool tape_wanted(std::span<const Tensor> inputs) {
  if (no_grad) return false;
  for (const Tensor& input : inputs)
    if (input.impl()->tracked() && is_float(input.dtype())) return true;
  return false;
}

void put_on_tape(const OpPtr& op, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  auto node = std::make_shared<TapeNode>();
  node->op = op;
  node->order = node_count++;
  node->device = current_device();
  node->module_path = current_module_path();
  for (const Tensor& input : inputs) {
    const auto& impl = input.shared();
    node->input_specs.push_back(impl->spec);
    // A pinned handle stands for the leaf it was made from.
    if (impl->leaf)
      node->edges.push_back({nullptr, impl->pinned_from ? impl->pinned_from : impl, 0});
    else
      node->edges.push_back({impl->node, nullptr, impl->output});
  }
  Saved saved = op->saved();
  save(inputs, saved.inputs, node->inputs, node->input_versions);
  save(outputs, saved.outputs, node->outputs, node->output_versions);
  for (size_t i = 0; i < outputs.size(); ++i) {
    node->output_specs.push_back(outputs[i].spec());
    outputs[i].impl()->node = node;
    outputs[i].impl()->output = static_cast<int>(i);
  }
}

Tensor requires_grad(const Tensor& x) {
  if (!is_float(x.dtype()))
    throw ShapeError(fmt::format("tracked: only floating-point tensors have gradients, given {}",
                                 x.spec().text()));
  Tensor handle = detach(x);
  handle.impl()->leaf = true;
  return handle;
}

Tensors gradients(const Tensor& loss, std::span<const Tensor> wrt, const Tensor& upstream) {
  if (!upstream.defined() && loss.elements() != 1)
    throw ShapeError(
        fmt::format("gradients: the loss must have one element, it is {}; give an "
                    "upstream gradient, or take the mean",
                    loss.spec().text()));
  if (upstream.defined() && upstream.spec() != loss.spec())
    throw ShapeError(
        fmt::format("gradients: the upstream gradient must be shaped like the loss "
                    "({}), it is {}",
                    loss.spec().text(), upstream.spec().text()));
  for (const Tensor& leaf : wrt)
    if (!leaf.impl()->leaf)
      throw Error(fmt::format("gradients: {} is not tracked; use a parameter or requires_grad(x)",
                              leaf.spec().text()));
  NoGradScope no_tape;
  struct Flag {
    bool outer = std::exchange(backward_now, true);
    ~Flag() { backward_now = outer; }
  } flag;
  Backward backward(wrt);
  backward.start(loss, upstream.defined() ? upstream : full(loss.shape(), 1.0, loss.dtype()));
  backward.run();
  Tensors result;
  for (const Tensor& leaf : wrt) {
    Tensor grad = backward.gradient_of(leaf);
    result.push_back(grad.defined() ? grad : zeros(leaf.shape(), leaf.dtype()));
  }
  return result;
}

}  // namespace tessera
