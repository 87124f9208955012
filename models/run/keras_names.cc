#include "tessera/models/run/keras_names.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr char kWhole[] = "/model_weights/";

bool has_list(const Hdf5File& file, const std::string& group) {
  return file.has(group + "@layer_names") || file.has(group + "@layer_names0");
}

// The list `name` of a group, or its parts one behind the other.
std::vector<std::string> list_of(const Hdf5File& file, const std::string& group,
                                 const std::string& name) {
  const std::string place = fmt::format("{}@{}", group, name);
  if (file.has(place)) return file.texts(place, Hdf5File::Texts::any_number);
  std::vector<std::string> all;
  for (int part = 0; file.has(fmt::format("{}{}", place, part)); ++part)
    for (std::string& text : file.texts(fmt::format("{}{}", place, part)))
      all.push_back(std::move(text));
  return all;
}

std::string root_of(const Hdf5File& file) { return has_list(file, "/") ? "/" : kWhole; }

// "conv1/kernel:0" is the weight "kernel" of "conv1".
struct Weight {
  std::string leaf;
  Hdf5DataInfo array;
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
    return found == weights.end() ? nullptr : &found->array;
  };
  const auto named = [&](const char* text) { return layer.find(text) != layer.npos; };
  if (weight("moving_mean") != nullptr) return "batch_normalization";
  if (weight("pointwise_kernel") != nullptr) return "separable_conv2d";
  if (weight("depthwise_kernel") != nullptr) return "depthwise_conv2d";
  if (const Hdf5DataInfo* kernel = weight("kernel")) {
    if (weight("recurrent_kernel") != nullptr) return "recurrent";
    const std::vector<int64_t>& shape = kernel->shape;
    if (shape.size() == 2) return "dense";
    if (shape.size() != 4) return layer;
    return shape[3] == 1 && (named("depthwise") || named("dw")) ? "depthwise_conv2d" : "conv2d";
  }
  if (weight("gamma") != nullptr && weight("beta") != nullptr)
    return named("group_norm") ? "group_normalization" : "layer_normalization";
  return layer;
}

}  // namespace

bool is_older_keras(const Hdf5File& file) { return has_list(file, "/") || has_list(file, kWhole); }

std::vector<std::string> older_keras_layers(const Hdf5File& file) {
  return list_of(file, root_of(file), "layer_names");
}

KerasArrays older_keras_arrays(const Hdf5File& file, const KerasArrays& arrays) {
  const std::string root = root_of(file);
  std::map<std::string, Hdf5DataInfo> left;
  for (const auto& [name, array] : arrays)
    if (name.starts_with(root)) left[name] = array;
  std::map<std::string, int> counts;
  KerasArrays found;
  for (const std::string& layer : older_keras_layers(file)) {
    // A model within the model has its layers' weights in one list.
    std::vector<std::pair<std::string, std::vector<Weight>>> modules;
    std::map<std::string, size_t> known;
    for (const std::string& name : list_of(file, root + layer, "weight_names")) {
      const auto array = left.find(root + layer + "/" + name);
      if (array == left.end())
        throw Error(
            fmt::format("is damaged: layer '{}' names the weight '{}', which is not there, "
                        "or twice",
                        layer, name));
      const auto [module, is_new] = known.try_emplace(keras_module(name), modules.size());
      if (is_new) modules.push_back({module->first.empty() ? layer : module->first, {}});
      modules[module->second].second.push_back({keras_leaf(name), array->second});
      left.erase(array);
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
  if (!left.empty())
    throw Error(
        fmt::format("is not read: '{}' belongs to no layer", left.begin()->first.substr(1)));
  return found;
}

}  // namespace tessera
