#include "tessera/models/run/foreign_weights.h"

#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace tessera {

namespace {

std::string leaf_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }

ForeignWeight as_ours(const WeightLayout& layout) { return {layout.name, layout.shape}; }

ForeignWeight as_pytorchs(const WeightLayout& layout, const NameTable& table,
                          const std::set<std::string>& all) {
  std::vector<int64_t> shape = layout.foreign_shape;
  if (shape.size() == 4 && table.is_linear(layout.name)) shape.resize(2);
  return {table.theirs(with_foreign_leaf(layout.name, all)), std::move(shape), layout.outer,
          layout.channels, layout.pixels};
}

// Layers of Keras: their class in snake case and a number from the second of a class on.
class KerasNames {
 public:
  explicit KerasNames(const std::vector<WeightLayout>& layouts) {
    for (const WeightLayout& layout : layouts) {
      leaves_[module_of(layout.name)].insert(leaf_of(layout.name));
      if (leaf_of(layout.name) == "weight") weights_[module_of(layout.name)] = &layout;
    }
  }

  // Modules are numbered as their first tensor comes.
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
  // One filter for each channel, which in Keras is a layer of its own.
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

}  // namespace

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
    all.push_back(form == WeightForm::own       ? as_ours(layout)
                  : form == WeightForm::pytorch ? as_pytorchs(layout, table, names)
                                                : keras(layout));
  return all;
}

}  // namespace tessera
