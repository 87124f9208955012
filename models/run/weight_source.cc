#include "tessera/models/run/weight_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tessera/models/data/formats/safetensors.h"
#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/array_file.h"
#include "tessera/models/run/keras_names.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw CheckpointError(fmt::format("weights '{}': {}", path, what));
}

class SafetensorsWeightSource final : public WeightSource {
 public:
  SafetensorsWeightSource(std::string path, std::unique_ptr<ByteSource> bytes)
      : WeightSource(std::move(path), WeightForm::pytorch), bytes_(std::move(bytes)) {
    try {
      contents_ = read_safetensors(*bytes_);
    } catch (const SafetensorsError& error) {
      throw Error(fmt::format("is no safetensors file, or a damaged one: {}", error.what()));
    }
    for (const SafeTensor& tensor : contents_.tensors)
      tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, is_fractional(tensor.dtype)});
  }

 private:
  void read_from(size_t index, uint64_t first, std::span<double> to) const override {
    read_values(*bytes_, contents_.tensors[index], first, to);
  }

  std::unique_ptr<ByteSource> bytes_;
  SafetensorsContents contents_;
};

// weights.h5 has its tensors at the root, a checkpoint in two of its groups, Keras in groups of
// groups: layers/conv2d_1/vars/0.
class Hdf5WeightSource final : public WeightSource {
 public:
  Hdf5WeightSource(std::string path, std::unique_ptr<ByteSource> bytes)
      : WeightSource(std::move(path), WeightForm::own),
        file_(open_arrays(std::move(bytes), /*need_seal=*/false, Hdf5Groups::nested)) {
    std::vector<std::pair<std::string, const Hdf5Array*>> found;
    const auto has = [&](const char* text) {
      return std::any_of(
          file_.contents.arrays.begin(), file_.contents.arrays.end(),
          [&](const Hdf5Array& array) { return array.name.find(text) != std::string::npos; });
    };
    if (is_older_keras(file_.contents)) {
      form_ = WeightForm::keras;
      found = older_keras_arrays(file_.contents);
      layers_ = older_keras_layers(file_.contents);
    } else {
      if (has("/vars/")) form_ = WeightForm::keras;
      for (const Hdf5Array& array : file_.contents.arrays) {
        const std::string name = short_name(array.name);
        if (form_ == WeightForm::keras || name.find('/') == name.npos)
          found.emplace_back(name, &array);
      }
    }
    const auto is_float = [](const Hdf5Array& array) {
      return array.dtype == "float32" || array.dtype == "float64";
    };
    std::erase_if(found, [&](const auto& entry) { return !is_float(*entry.second); });
    std::sort(found.begin(), found.end());
    for (const auto& [name, array] : found) {
      if (!tensors_.empty() && tensors_.back().name == name)
        throw Error(fmt::format("is damaged: the name '{}' is there twice", name));
      tensors_.push_back({name, array->dtype, array->shape});
      arrays_.push_back(array);
    }
  }

 private:
  static std::string short_name(const std::string& name) {
    for (const std::string_view group : {"weights/", "statistics/"})
      if (name.starts_with(group)) return name.substr(group.size());
    return name;
  }
  void read_from(size_t index, uint64_t first, std::span<double> to) const override {
    const Hdf5Array& array = *arrays_[index];
    if (array.dtype == "float64") {
      file_.bytes->read(array.offset + first * sizeof(double), to.data(), to.size_bytes());
      return;
    }
    std::array<float, 1024> part;
    for (size_t done = 0; done < to.size();) {
      const size_t count = std::min(to.size() - done, part.size());
      file_.bytes->read(array.offset + (first + done) * sizeof(float), part.data(),
                        count * sizeof(float));
      std::copy_n(part.begin(), count, to.begin() + static_cast<ptrdiff_t>(done));
      done += count;
    }
  }

  ArrayFile file_;
  std::vector<const Hdf5Array*> arrays_;
};

}  // namespace

uint64_t SourceTensor::elements() const {
  uint64_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<uint64_t>(extent);
  return count;
}

bool WeightSource::drop_prefix(std::string_view prefix) {
  const auto has = [&](const SourceTensor& tensor) { return tensor.name.starts_with(prefix); };
  if (tensors_.empty() || !std::all_of(tensors_.begin(), tensors_.end(), has)) return false;
  for (SourceTensor& tensor : tensors_) tensor.name.erase(0, prefix.size());
  return true;
}

void WeightSource::read(size_t index, uint64_t first, std::span<double> to) const try {
  read_from(index, first, to);
} catch (const CheckpointError&) {
  throw;
} catch (const Error& error) {
  fail(path_, fmt::format("'{}' cannot be read: {}", tensors_[index].name, error.what()));
}

std::unique_ptr<WeightSource> open_weight_source(const std::string& path) try {
  constexpr char kHdf5[] = "\x89HDF\r\n\x1a\n";
  auto bytes = std::make_unique<FileSource>(path);
  std::array<char, 8> front = {};
  if (bytes->size() >= front.size()) bytes->read(0, front.data(), front.size());
  if (std::memcmp(front.data(), kHdf5, front.size()) == 0)
    return std::make_unique<Hdf5WeightSource>(path, std::move(bytes));
  if (path.ends_with(".keras"))
    throw Error(
        "is an archive of Keras; in Keras model.save_weights('model.weights.h5') makes a file that "
        "is read");
  if (std::memcmp(front.data(), "PK\x03\x04", 4) == 0 ||
      std::memcmp(front.data(), "\x80\x02", 2) == 0)
    throw Error(
        "is a file of torch.save(), which can run programs and is not read; in PyTorch "
        "safetensors.torch.save_file(model.state_dict(), 'model.safetensors') makes one that is");
  return std::make_unique<SafetensorsWeightSource>(path, std::move(bytes));
} catch (const CheckpointError&) {
  throw;
} catch (const Error& error) {
  fail(path, error.what());
}

}  // namespace tessera
