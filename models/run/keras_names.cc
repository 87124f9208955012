#include "tessera/models/run/keras_names.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr char kWhole[] = "model_weights";

class Names {
 public:
  explicit Names(const Hdf5Contents& contents) {
    for (const Hdf5Texts& list : contents.lists) lists_[{list.group, list.name}] = &list.texts;
  }

  bool has(const std::string& group, const std::string& name) const {
    return lists_.count({group, name}) != 0 || lists_.count({group, name + "0"}) != 0;
  }

  // The list, or its parts one behind the other.
  std::vector<std::string> list(const std::string& group, const std::string& name) const {
    if (const auto whole = lists_.find({group, name}); whole != lists_.end()) return *whole->second;
    std::vector<std::string> all;
    for (int part = 0;; ++part) {
      const auto found = lists_.find({group, fmt::format("{}{}", name, part)});
      if (found == lists_.end()) return all;
      all.insert(all.end(), found->second->begin(), found->second->end());
    }
  }

 private:
  std::map<std::pair<std::string, std::string>, const std::vector<std::string>*> lists_;
};

std::string root_of(const Names& names) { return names.has("", "layer_names") ? "" : kWhole; }

// "conv1/kernel:0" is the weight "kernel" of "conv1".
struct Weight {
  std::string leaf;
  const Hdf5Array* array;
};

std::string keras_leaf(const std::string& name) {
  const std::string leaf = name.substr(name.rfind('/') + 1);
  return leaf.substr(0, leaf.rfind(':'));
}

std::string keras_module(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == name.npos ? "" : name.substr(0, slash);
}

// The class of a layer, as far as its weights tell. A depthwise convolution of Keras 3 has the
// leaves of any other and filters of one output each, so its name counts too.
std::string kind_of(const std::string& layer, const std::vector<Weight>& weights) {
  const auto weight = [&](const char* leaf) {
    const auto found = std::find_if(weights.begin(), weights.end(),
                                    [&](const Weight& w) { return w.leaf == leaf; });
    return found == weights.end() ? nullptr : found->array;
  };
  const auto named = [&](const char* text) { return layer.find(text) != layer.npos; };
  if (weight("moving_mean") != nullptr) return "batch_normalization";
  if (weight("pointwise_kernel") != nullptr) return "separable_conv2d";
  if (weight("depthwise_kernel") != nullptr) return "depthwise_conv2d";
  if (const Hdf5Array* kernel = weight("kernel")) {
    if (weight("recurrent_kernel") != nullptr) return "recurrent";
    if (kernel->shape.size() == 2) return "dense";
    if (kernel->shape.size() != 4) return layer;
    return kernel->shape[3] == 1 && (named("depthwise") || named("dw")) ? "depthwise_conv2d"
                                                                        : "conv2d";
  }
  if (weight("gamma") != nullptr && weight("beta") != nullptr)
    return named("group_norm") ? "group_normalization" : "layer_normalization";
  return layer;
}

}  // namespace

bool is_older_keras(const Hdf5Contents& contents) {
  const Names names(contents);
  return names.has("", "layer_names") || names.has(kWhole, "layer_names");
}

std::vector<std::string> older_keras_layers(const Hdf5Contents& contents) {
  const Names names(contents);
  return names.list(root_of(names), "layer_names");
}

std::vector<std::pair<std::string, const Hdf5Array*>> older_keras_arrays(
    const Hdf5Contents& contents) {
  const Names names(contents);
  const std::string root = root_of(names);
  const std::string prefix = root.empty() ? "" : root + "/";
  std::map<std::string, const Hdf5Array*> arrays;
  for (const Hdf5Array& array : contents.arrays)
    if (array.name.starts_with(prefix)) arrays[array.name] = &array;
  std::map<std::string, int> counts;
  std::vector<std::pair<std::string, const Hdf5Array*>> found;
  for (const std::string& layer : older_keras_layers(contents)) {
    // A model within the model has its layers' weights in one list.
    std::vector<std::pair<std::string, std::vector<Weight>>> modules;
    std::map<std::string, size_t> known;
    for (const std::string& name : names.list(prefix + layer, "weight_names")) {
      const auto array = arrays.find(prefix + layer + "/" + name);
      if (array == arrays.end())
        throw Error(
            fmt::format("is damaged: layer '{}' names the weight '{}', which is not there, "
                        "or twice",
                        layer, name));
      const auto [module, is_new] = known.try_emplace(keras_module(name), modules.size());
      if (is_new) modules.push_back({module->first.empty() ? layer : module->first, {}});
      modules[module->second].second.push_back({keras_leaf(name), array->second});
      arrays.erase(array);
    }
    for (const auto& [module, weights] : modules) {
      const std::string own = module.substr(module.rfind('/') + 1);
      const std::string kind = kind_of(modules.size() == 1 ? layer : own, weights);
      const int count = counts[kind]++;
      const std::string numbered = count == 0 ? kind : fmt::format("{}_{}", kind, count);
      for (size_t i = 0; i < weights.size(); ++i)
        found.emplace_back(fmt::format("layers/{}/vars/{}", numbered, i), weights[i].array);
    }
  }
  if (!arrays.empty())
    throw Error(fmt::format("is not read: '{}' belongs to no layer", arrays.begin()->first));
  return found;
}

}  // namespace tessera
