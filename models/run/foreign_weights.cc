#include "tessera/models/run/foreign_weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/graph/capture.h"
#include "tessera/layers/module.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// An image whose values became the columns of a matrix, in HWC order.
struct Flattened {
  int64_t height, width, channels;
};

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// Follows flattened images through the graph and records which op reads each weight.
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

  std::string head;  // the module of the last convolution or matmul

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

  // Follows the image through an op that keeps the columns.
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

// Returns PyTorch's "layer1.0.bn1.weight" for "layer1.0.bn1.gamma". A gamma without a beta belongs
// to no normalisation and keeps its name. `all` are the names of the network.
std::string with_foreign_leaf(const std::string& name, const std::set<std::string>& all) {
  const std::string module = name.substr(0, name.rfind('.') + 1), leaf = name.substr(module.size());
  if (all.count(module + "gamma") == 0 || all.count(module + "beta") == 0) return name;
  if (leaf == "gamma") return module + "weight";
  return leaf == "beta" ? module + "bias" : name;
}

std::string leaf_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }

ForeignWeight as_pytorchs(const WeightLayout& layout, const NameTable& table,
                          const std::set<std::string>& all) {
  std::vector<int64_t> shape = layout.foreign_shape;
  if (shape.size() == 4 && table.is_linear(layout.name)) shape.resize(2);
  return {table.theirs(with_foreign_leaf(layout.name, all)), std::move(shape), layout.outer,
          layout.channels, layout.pixels};
}

// Names of Keras layers: the class in snake case, and a number from the second of a class on.
class KerasNames {
 public:
  explicit KerasNames(const std::vector<WeightLayout>& layouts) {
    for (const WeightLayout& layout : layouts) {
      leaves_[module_of(layout.name)].insert(leaf_of(layout.name));
      if (leaf_of(layout.name) == "weight") weights_[module_of(layout.name)] = &layout;
    }
  }

  // Numbers modules in the order of their first tensors.
  ForeignWeight operator()(const WeightLayout& layout) {
    const std::string module = module_of(layout.name), leaf = leaf_of(layout.name);
    auto [known, is_new] = names_.try_emplace(module);
    if (is_new) {
      const std::string kind = kind_of(module);
      const int count = counts_[kind]++;
      known->second = count == 0 ? kind : fmt::format("{}_{}", kind, count);
    }
    ForeignWeight weight{fmt::format("layers/{}/vars/{}", known->second, place_of(leaf)),
                         layout.shape};
    if (leaf != "weight") return weight;
    const int64_t outputs = layout.shape[0];
    weight.middle = layout.elements() / outputs, weight.inner = outputs;
    if (layout.shape.size() == 2) weight.shape = {layout.shape[1], outputs};
    if (layout.shape.size() == 4)
      weight.shape =
          is_depthwise(layout)
              ? std::vector<int64_t>{layout.shape[1], layout.shape[2], outputs, 1}
              : std::vector<int64_t>{layout.shape[1], layout.shape[2], layout.shape[3], outputs};
    return weight;
  }

 private:
  // Returns true for one filter per channel, which is a layer of its own in Keras.
  static bool is_depthwise(const WeightLayout& layout) {
    return layout.groups > 1 && layout.groups == layout.shape[0];
  }
  std::string kind_of(const std::string& module) const {
    const std::set<std::string>& leaves = leaves_.at(module);
    if (leaves.count("running_mean") != 0) return "batch_normalization";
    const auto weight = weights_.find(module);
    if (weight == weights_.end() && leaves.count("gamma") == 0) return module;
    if (weight == weights_.end())
      return leaf_of(module).starts_with("group") ? "group_normalization" : "layer_normalization";
    if (weight->second->shape.size() == 2) return "dense";
    return is_depthwise(*weight->second) ? "depthwise_conv2d" : "conv2d";
  }
  static int place_of(const std::string& leaf) {
    if (leaf == "weight" || leaf == "gamma") return 0;
    if (leaf == "bias" || leaf == "beta") return 1;
    return leaf == "running_mean" ? 2 : 3;
  }

  std::map<std::string, std::set<std::string>> leaves_;
  std::map<std::string, const WeightLayout*> weights_;
  std::map<std::string, std::string> names_;
  std::map<std::string, int> counts_;
};

using Elements = std::map<std::string, uint64_t>;  // numbers of elements by name

Tensors tensors_of(const Store& store) {
  Tensors all = store.parameters();
  all.insert(all.end(), store.buffers().begin(), store.buffers().end());
  return all;
}

// Returns the fraction of equal tensors. The logits layer may have other classes in the file.
double likeness(const Elements& file, const Tensors& tensors, const std::string& head, bool own,
                const NameTable& names) {
  size_t same = 0;
  std::set<std::string> all;
  for (const Tensor& tensor : tensors) all.insert(persistent_name(tensor));
  for (const Tensor& tensor : tensors) {
    const std::string& name = persistent_name(tensor);
    const auto found = file.find(own ? name : names.theirs(with_foreign_leaf(name, all)));
    if (found == file.end()) continue;
    const auto elements = static_cast<uint64_t>(tensor.shape().elements());
    same += found->second == elements ||
            (name.starts_with(head) &&
             found->second % (elements / static_cast<uint64_t>(tensor.shape()[0])) == 0);
  }
  return static_cast<double>(same) / static_cast<double>(std::max(file.size(), tensors.size()));
}

// Returns the options of the published network: images of 224 x 224 pixels, or of CIFAR's size.
ModelOptions published_options(const std::string& network) {
  if (name_tables(network).empty()) return {};
  return {.height = 224, .width = 224, .channels = 3, .classes = 1000};
}

}  // namespace

std::string module_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

bool WeightLayout::takes(const std::vector<int64_t>& theirs) const {
  if (without_ones(theirs) == without_ones(foreign_shape)) return true;
  return flattened > 0 && theirs.size() == 4 && theirs[0] == outer && theirs[1] == channels &&
         theirs[2] * theirs[3] == pixels;
}

std::vector<WeightLayout> weight_layouts(const Module& network, const Store& store,
                                         const ImageShape& image, int64_t classes) {
  std::vector<WeightLayout> layouts;
  for (const Tensors* list : {&store.parameters(), &store.buffers()})
    for (const Tensor& tensor : *list) layouts.push_back(plain(tensor));
  std::map<std::string, WeightLayout*> by_name;
  for (WeightLayout& layout : layouts) by_name[layout.name] = &layout;
  const TrainingScope evaluation(false);
  const NoGradScope no_grad;
  const Graph graph =
      capture([&](const Tensors& x) { return Tensors{network(x[0])}; },
              {{store.dtype(), Shape{1, image.height, image.width, image.channels}, {}}});
  const Reading reading(graph, by_name);
  for (WeightLayout& layout : layouts)
    layout.head = module_of(layout.name) == reading.head && !layout.shape.empty() &&
                  layout.shape[0] == classes;
  return layouts;
}

std::vector<float> ForeignWeight::in_their_order(const std::vector<float>& ours) const {
  std::vector<float> theirs(ours.size());
  for (size_t i = 0; i < ours.size(); ++i)
    theirs[i] = ours[static_cast<size_t>(place(static_cast<int64_t>(i)))];
  return theirs;
}

std::vector<ForeignWeight> foreign_weights(WeightForm form,
                                           const std::vector<WeightLayout>& layouts,
                                           const NameTable& table) {
  KerasNames keras(layouts);
  std::set<std::string> names;
  for (const WeightLayout& layout : layouts) names.insert(layout.name);
  std::vector<ForeignWeight> all;
  for (const WeightLayout& layout : layouts)
    all.push_back(form == WeightForm::own       ? ForeignWeight{layout.name, layout.shape}
                  : form == WeightForm::pytorch ? as_pytorchs(layout, table, names)
                                                : keras(layout));
  return all;
}

std::string what_weights_look_like(const WeightSource& source, const std::string& but) {
  constexpr double kAlike = 0.9;
  if (source.form() == WeightForm::keras) return "";  // Keras names fit any network
  const bool is_own = source.form() == WeightForm::own;
  Elements file;
  for (const SourceTensor& tensor : source.tensors())
    if (tensor.usable) file[tensor.name] = tensor.elements();
  double best = kAlike;
  std::string text, best_network;
  for (const std::string& network : model_names()) {
    Store store;
    std::unique_ptr<Module> made;
    try {
      made = make_model(network, published_options(network), store);
    } catch (const Error&) {
      continue;  // the network refuses images of this size
    }
    const Tensors tensors = tensors_of(store);
    const std::string& last = persistent_name(store.parameters().back());
    const std::string head = last.substr(0, last.rfind('.') + 1);
    std::vector<NameTable> tables = name_tables(network);
    if (tables.empty() || is_own) tables = {{"Tessera", network}};
    for (const NameTable& table : tables) {
      const double alike = likeness(file, tensors, head, is_own, table);
      if (alike <= best) continue;
      best = alike, best_network = network;
      text = fmt::format(" It looks like {}'s {}, which is model.name={} here.", table.program,
                         table.network, network);
    }
  }
  return best_network == but ? "" : text;
}

}  // namespace tessera
