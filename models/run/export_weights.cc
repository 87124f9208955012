// Exports the weights of a trained network.
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "tessera/models/data/formats/hdf5_writer.h"
#include "tessera/models/data/formats/safetensors.h"
#include "tessera/models/run/foreign_weights.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/zoo/names/name_tables.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

namespace {

// The weights of a network with the names and in the dimension order of another program.
struct Export {
  Export(const TrainedNetwork& trained, WeightForm form, const NameTable& names)
      : store(trained.store),
        layouts(
            weight_layouts(*trained.network, store, trained.image, trained.config.model.classes)),
        weights(foreign_weights(form, layouts, names)) {}

  std::vector<float> values(size_t i) const {
    return weights[i].in_their_order(store.find(layouts[i].name).to_vector<float>());
  }

  const Store& store;
  const std::vector<WeightLayout> layouts;
  const std::vector<ForeignWeight> weights;  // one per layout
};

// The parts of "layers/conv2d_1/vars/0".
struct KerasWeight {
  std::string layer;
  size_t place = 0;
};

KerasWeight parts_of(const std::string& name) {
  const size_t begin = std::string("layers/").size(), end = name.find("/vars/");
  return {name.substr(begin, end - begin), static_cast<size_t>(name.back() - '0')};
}

// Returns the weight's name within its layer in Keras 2.
std::string older_leaf(const KerasWeight& weight) {
  if (weight.layer.find("norm") != std::string::npos) {
    constexpr const char* kNames[] = {"gamma", "beta", "moving_mean", "moving_variance"};
    return kNames[weight.place];
  }
  if (weight.place == 1) return "bias";
  return weight.layer.starts_with("depthwise") ? "depthwise_kernel" : "kernel";
}

// Writes the lists of layers and of their weights. Returns the names of the file's arrays.
std::vector<std::string> older_names(const std::vector<ForeignWeight>& weights, Hdf5Writer& file) {
  std::vector<std::string> layers, names;
  std::map<std::string, std::map<size_t, std::string>> of_layer;
  for (const ForeignWeight& weight : weights) {
    const KerasWeight parts = parts_of(weight.name);
    const std::string leaf = fmt::format("{}/{}:0", parts.layer, older_leaf(parts));
    if (of_layer.count(parts.layer) == 0) layers.push_back(parts.layer);
    of_layer[parts.layer][parts.place] = leaf;
    names.push_back(parts.layer + "/" + leaf);
  }
  file.attribute({"backend", "tensorflow"});
  file.attribute({"keras_version", "2.15.0"});
  file.texts("", "layer_names", layers);
  for (const std::string& layer : layers) {
    std::vector<std::string> list;
    for (const auto& [place, name] : of_layer[layer]) list.push_back(name);
    file.texts(layer, "weight_names", list);
  }
  return names;
}

}  // namespace

std::string export_safetensors(const TrainedNetwork& trained, const std::string& path) {
  const Config& config = trained.config;
  const std::vector<NameTable>& tables = name_tables(config.model.name);
  const bool is_known = config.model.layers.empty() && !tables.empty();
  const NameTable names = is_known ? tables[0] : NameTable{"", config.model.name};
  std::vector<SafeTensor> tensors;
  std::vector<std::vector<float>> values;
  const Export all(trained, WeightForm::pytorch, names);
  for (size_t i = 0; i < all.weights.size(); ++i) {
    tensors.push_back(safe_tensor({all.weights[i].name, "float32", all.weights[i].shape}));
    values.push_back(all.values(i));
  }
  // Readers for PyTorch require "format".
  const std::string front = safetensors_front(
      tensors, {{"format", "pt"}, {"model", config.model.name}, {"inference", trained.inference}});
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(front))};
  for (const std::vector<float>& one : values) parts.push_back(std::as_bytes(std::span(one)));
  if (const FileError fault = write_durably(file_system(), path.c_str(), parts))
    throw CheckpointError(fmt::format("export '{}': cannot be written ({} failed: {})", path,
                                      fault.operation, std::strerror(fault.error)));
  return is_known ? fmt::format("{}'s {}", names.program, names.network) : "our own";
}

void export_keras(const TrainedNetwork& trained, const std::string& path, KerasForm form) {
  const Export all(trained, WeightForm::keras, {});
  const std::string partial = path + ".partial";
  try {
    Hdf5Writer file(partial);
    std::vector<std::string> names;
    if (form == KerasForm::before) names = older_names(all.weights, file);
    for (size_t i = 0; i < all.weights.size(); ++i) {
      const std::string& name = names.empty() ? all.weights[i].name : names[i];
      file.array({name, "float32", all.weights[i].shape}, all.values(i).data());
    }
    file.close();
    std::filesystem::rename(partial, path);
  } catch (const std::exception& error) {
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    throw CheckpointError(fmt::format("export '{}': cannot be written: {}", path, error.what()));
  }
}

}  // namespace tessera
