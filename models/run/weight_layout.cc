#include "tessera/models/run/weight_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/graph/capture.h"
#include "tessera/layers/module.h"
#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

std::string module_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

namespace {

// An image whose values became the columns of a matrix, in our order.
struct Flattened {
  int64_t height, width, channels;
};

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// Follows flattened images through the graph and notes what reads each weight.
class Reading {
 public:
  Reading(const Graph& graph, std::map<std::string, WeightLayout*> weights)
      : graph_(graph), weights_(std::move(weights)) {
    for (const Node& node : graph_.nodes) {
      const bool product = node.op->name() == "matmul", filters = node.op->name() == "conv2d";
      if (node.op->name() == "view") follow_view(node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        WeightLayout* weight = weight_of(node.inputs[i]);
        if (weight == nullptr) continue;
        if (filters) filters_of(*weight, graph_.values[node.inputs[0]].spec.shape.back());
        if (filters || product) head = module_of(weight->name);
        const auto image = image_read(node);
        if (image && (product ? weight->shape.size() == 2 : weight->shape.size() == 1))
          columns_of(*weight, *image);
      }
      if (!product && !filters) hand_on(node);
    }
  }

  std::string head;  // the module that reads weights last

 private:
  WeightLayout* weight_of(ValueId id) const {
    const auto found = weights_.find(graph_.values[id].name);
    return graph_.values[id].persistent() && found != weights_.end() ? found->second : nullptr;
  }

  std::optional<Flattened> image_read(const Node& node) const {
    for (const ValueId input : node.inputs)
      if (const auto found = images_.find(input); found != images_.end()) return found->second;
    return {};
  }

  void follow_view(const Node& node) {
    const Shape& from = graph_.values[node.inputs[0]].spec.shape;
    const Shape& to = graph_.values[node.outputs[0]].spec.shape;
    if (from.rank() == 4 && to.rank() == 2 && to[0] == from[0])
      images_[node.outputs[0]] = {from[1], from[2], from[3]};
  }

  // Through what leaves columns where they are.
  void hand_on(const Node& node) {
    const auto image = image_read(node);
    if (!image) return;
    for (const ValueId output : node.outputs) {
      const Shape& shape = graph_.values[output].spec.shape;
      if (shape.rank() == 2 && shape[1] == image->height * image->width * image->channels)
        images_[output] = *image;
    }
  }

  static void filters_of(WeightLayout& weight, int64_t channels) {
    const std::vector<int64_t>& s = weight.shape;
    weight.outer = s[0], weight.channels = s[3], weight.pixels = s[1] * s[2];
    weight.foreign_shape = {s[0], s[3], s[1], s[2]};
    weight.groups = channels / s[3];
  }

  static void columns_of(WeightLayout& weight, const Flattened& image) {
    if (weight.shape.back() != image.height * image.width * image.channels) return;
    weight.outer = weight.shape.size() == 2 ? weight.shape[0] : 1;
    weight.channels = image.channels, weight.pixels = image.height * image.width;
    weight.flattened = image.channels;
  }

  const Graph& graph_;
  const std::map<std::string, WeightLayout*> weights_;
  std::unordered_map<ValueId, Flattened> images_;
};

WeightLayout plain(const Tensor& tensor) {
  WeightLayout layout;
  layout.name = persistent_name(tensor);
  layout.shape.assign(tensor.shape().begin(), tensor.shape().end());
  layout.channels = tensor.shape().elements();
  layout.foreign_shape = layout.shape;
  return layout;
}

}  // namespace

bool WeightLayout::takes(const std::vector<int64_t>& theirs) const {
  if (without_ones(theirs) == without_ones(foreign_shape)) return true;
  return flattened > 0 && theirs.size() == 4 && theirs[0] == outer && theirs[1] == channels &&
         theirs[2] * theirs[3] == pixels;
}

std::vector<WeightLayout> weight_layouts(const Module& network, const Store& store, int64_t height,
                                         int64_t width, int64_t channels, int64_t classes) {
  std::vector<WeightLayout> layouts;
  for (const Tensors* list : {&store.parameters(), &store.buffers()})
    for (const Tensor& tensor : *list) layouts.push_back(plain(tensor));
  std::map<std::string, WeightLayout*> by_name;
  for (WeightLayout& layout : layouts) by_name[layout.name] = &layout;
  const TrainingScope evaluation(false);
  const NoGradScope no_grad;
  const Graph graph = capture([&](const Tensors& x) { return Tensors{network(x[0])}; },
                              {{store.dtype(), Shape{1, height, width, channels}, {}}});
  const Reading reading(graph, by_name);
  for (WeightLayout& layout : layouts)
    layout.head = module_of(layout.name) == reading.head && !layout.shape.empty() &&
                  layout.shape[0] == classes;
  return layouts;
}

std::string with_foreign_leaf(const std::string& name, const std::set<std::string>& all) {
  const std::string module = name.substr(0, name.rfind('.') + 1), leaf = name.substr(module.size());
  if (all.count(module + "gamma") == 0 || all.count(module + "beta") == 0) return name;
  if (leaf == "gamma") return module + "weight";
  return leaf == "beta" ? module + "bias" : name;
}

}  // namespace tessera
