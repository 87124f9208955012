#include "tessera/models/run/weight_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "tessera/models/data/formats/hdf5_library.h"
#include "tessera/models/data/formats/hdf5_lock.h"
#include "tessera/models/run/array_file.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Files of Keras before version 3, and of model.save_weights('x.h5') and model.save('x.h5') today.
// Attributes, not names, identify the tensors:
//
//   the root, or model_weights of a whole model    layer_names, in the order of the model
//   the group of a layer                           weight_names, in the order of the layer
//
// A long list is split into layer_names0, layer_names1 and so on. Names are translated to Keras
// 3's, "layers/conv2d_1/vars/0": each kind of layer is numbered in the order of the model.

using KerasArrays = std::vector<std::pair<std::string, Hdf5DataInfo>>;

bool has_list(const Hdf5File& file, const std::string& group) {
  return file.has(group + "@layer_names") || file.has(group + "@layer_names0");
}

// Returns the list `name` of a group, or its parts concatenated.
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

// Returns the class of a layer, derived from its weights. A depthwise convolution of Keras 3 has
// the leaves of other convolutions and filters with one output, so its name is checked too.
std::string kind_of(const std::string& layer, const std::vector<Weight>& weights) {
  const auto weight = [&](const char* leaf) {
    const auto found = std::ranges::find(weights, leaf, &Weight::leaf);
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

// Returns `arrays`, which are named by paths in the file, with the names of Keras 3. `layers` are
// those of the group `root` in the order of the model, including those without weights. Throws
// Error if an array is missing, named twice, or in no layer.
KerasArrays older_keras_arrays(const Hdf5File& file, const std::string& root,
                               const std::vector<std::string>& layers, const KerasArrays& arrays) {
  std::map<std::string, Hdf5DataInfo> left;
  for (const auto& [name, array] : arrays)
    if (name.starts_with(root)) left[name] = array;
  std::map<std::string, int> counts;
  KerasArrays found;
  for (const std::string& layer : layers) {
    // A nested model has the weights of its layers in one list.
    std::vector<std::pair<std::string, std::vector<Weight>>> modules;
    std::map<std::string, size_t> known;
    for (const std::string& name : list_of(file, root + layer, "weight_names")) {
      const auto array = left.find(root + layer + "/" + name);
      if (array == left.end())
        throw Error(
            fmt::format("is damaged: layer '{}' lists the weight '{}', which is missing or "
                        "listed twice",
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
        fmt::format("cannot be read: '{}' belongs to no layer", left.begin()->first.substr(1)));
  return found;
}

// Returns the name of a weight in a Tessera file, without the group that a checkpoint adds.
std::string own_name(const std::string& name) {
  for (const std::string_view group : {"weights/", "statistics/"})
    if (name.starts_with(group)) return name.substr(group.size());
  return name;
}

bool is_dotted(const std::string& name) { return name.find('/') == name.npos; }

class SafetensorsWeightSource final : public WeightSource {
 public:
  SafetensorsWeightSource(std::string path, std::unique_ptr<ByteSource> bytes)
      : WeightSource(std::move(path), WeightForm::pytorch),
        file_(open_arrays(std::move(bytes), /*need_seal=*/false)) {
    inference_ = file_.text("inference");
    if (file_.is_own()) take_own();
    for (const SafeTensor& tensor : file_.contents.tensors)
      add({tensor.name, tensor.dtype, tensor.shape, is_fractional(tensor.dtype)});
  }

 private:
  void take_own() {
    form_ = WeightForm::own;
    std::vector<SafeTensor>& tensors = file_.contents.tensors;
    for (SafeTensor& tensor : tensors) tensor.name = own_name(tensor.name);
    std::erase_if(tensors, [](const SafeTensor& tensor) { return !is_dotted(tensor.name); });
    std::ranges::sort(tensors, {}, &SafeTensor::name);
  }
  void read_from(size_t index, uint64_t first, std::span<double> to) const override {
    read_values(*file_.bytes, file_.contents.tensors[index], first, to);
  }

  ArrayFile file_;
};

// Reads files of Keras, which nests groups (layers/conv2d_1/vars/0), and of earlier versions of
// this program.
class Hdf5WeightSource final : public WeightSource {
 public:
  explicit Hdf5WeightSource(const std::string& path)
      : WeightSource(path, WeightForm::own), bytes_(path) {
    constexpr size_t kMax = 1 << 16;
    const Hdf5File file(path_);
    for (const std::string& array : file.list(kMax))
      if (file.has_floats(array)) arrays_.emplace_back(array, file.open(array)->info());
    const auto has_vars = [](const auto& array) { return array.first.find("/vars/") != npos; };
    const std::string root = has_list(file, "/") ? "/" : "/model_weights/";
    if (has_list(file, root)) {
      form_ = WeightForm::keras;
      layers_ = list_of(file, root, "layer_names");
      arrays_ = older_keras_arrays(file, root, layers_, arrays_);
    } else {
      for (auto& [name, array] : arrays_) name.erase(0, 1);
      if (std::ranges::any_of(arrays_, has_vars)) form_ = WeightForm::keras;
    }
    if (form_ == WeightForm::own) {
      for (auto& [name, array] : arrays_) name = own_name(name);
      std::erase_if(arrays_, [](const auto& array) { return !is_dotted(array.first); });
    }
    std::ranges::sort(arrays_, {}, &KerasArrays::value_type::first);
    for (const auto& [name, info] : arrays_) {
      if (info.offset < 0)
        throw Error(fmt::format(
            "'{}' is stored chunked or compact; write it contiguous and uncompressed, as "
            "h5py does without chunks= and compression=",
            name));
      add({name, info.type.name(), info.shape});
    }
  }

 private:
  static constexpr size_t npos = std::string::npos;

  void read_from(size_t index, uint64_t first, std::span<double> to) const override {
    const Hdf5DataInfo& info = arrays_[index].second;
    const auto size = static_cast<size_t>(info.type.bytes);
    std::array<std::byte, 4096> part;
    for (size_t done = 0; done < to.size();) {
      const size_t count = std::min(to.size() - done, part.size() / size);
      bytes_.read(static_cast<uint64_t>(info.offset) + (first + done) * size, part.data(),
                  count * size);
      read_numbers(part.data(), info.type, count, &to[done]);
      done += count;
    }
  }

  FileSource bytes_;
  KerasArrays arrays_;
};

}  // namespace

uint64_t SourceTensor::elements() const {
  uint64_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<uint64_t>(extent);
  return count;
}

void WeightSource::add(SourceTensor tensor) {
  if (!tensors_.empty() && tensors_.back().name == tensor.name)
    throw Error(fmt::format("is damaged: the name '{}' occurs twice", tensor.name));
  tensors_.push_back(std::move(tensor));
}

bool WeightSource::drop_prefix(std::string_view prefix) {
  const auto has = [&](const SourceTensor& tensor) { return tensor.name.starts_with(prefix); };
  if (tensors_.empty() || !std::ranges::all_of(tensors_, has)) return false;
  for (SourceTensor& tensor : tensors_) tensor.name.erase(0, prefix.size());
  return true;
}

void WeightSource::read(size_t index, uint64_t first, std::span<double> to) const try {
  read_from(index, first, to);
} catch (const CheckpointError&) {
  throw;
} catch (const Error& error) {
  fail_weights(path_, fmt::format("'{}' cannot be read: {}", tensors_[index].name, error.what()));
}

std::unique_ptr<WeightSource> open_weight_source(const std::string& path) try {
  auto bytes = std::make_unique<FileSource>(path);
  std::array<char, 8> front = {};
  if (bytes->size() >= front.size()) bytes->read(0, front.data(), front.size());
  if (is_hdf5(*bytes)) {
    const auto open = [&] { return std::make_unique<Hdf5WeightSource>(path); };
    if (!survives_hdf5(open)) throw Error("is damaged: libhdf5 cannot read it; use another copy");
    return open();
  }
  if (path.ends_with(".keras"))
    throw Error(
        "is a Keras archive, which is not supported; save the weights in Keras with "
        "model.save_weights('model.weights.h5')");
  if (std::memcmp(front.data(), "PK\x03\x04", 4) == 0 ||
      std::memcmp(front.data(), "\x80\x02", 2) == 0)
    throw Error(
        "is a file of torch.save(), which is not read because it can run programs; save it in "
        "PyTorch with safetensors.torch.save_file(model.state_dict(), 'model.safetensors')");
  return std::make_unique<SafetensorsWeightSource>(path, std::move(bytes));
} catch (const CheckpointError&) {
  throw;
} catch (const Error& error) {
  fail_weights(path, error.what());
}

}  // namespace tessera
