#include "tessera/models/run/weight_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tessera/models/data/formats/hdf5_library.h"
#include "tessera/models/data/formats/hdf5_turn.h"
#include "tessera/models/run/array_file.h"
#include "tessera/models/run/keras_names.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// The name of a weight in a file of ours, which in a checkpoint stands in two of its groups.
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
    std::sort(tensors.begin(), tensors.end(),
              [](const SafeTensor& a, const SafeTensor& b) { return a.name < b.name; });
  }
  void read_from(size_t index, uint64_t first, std::span<double> to) const override {
    read_values(*file_.bytes, file_.contents.tensors[index], first, to);
  }

  ArrayFile file_;
};

// Keras has its tensors in groups of groups, layers/conv2d_1/vars/0. What earlier versions of this
// program wrote is read too.
class Hdf5WeightSource final : public WeightSource {
 public:
  explicit Hdf5WeightSource(const std::string& path)
      : WeightSource(path, WeightForm::own), bytes_(path) {
    constexpr size_t kMost = 1 << 16;
    const Hdf5File file(path_);
    for (const std::string& array : file.list(kMost))
      if (file.has_floats(array)) arrays_.emplace_back(array, file.open(array)->info());
    const auto has_vars = [](const auto& array) { return array.first.find("/vars/") != npos; };
    if (is_older_keras(file)) {
      form_ = WeightForm::keras;
      arrays_ = older_keras_arrays(file, arrays_);
      layers_ = older_keras_layers(file);
    } else {
      for (auto& [name, array] : arrays_) name.erase(0, 1);
      if (std::any_of(arrays_.begin(), arrays_.end(), has_vars)) form_ = WeightForm::keras;
    }
    if (form_ == WeightForm::own) {
      for (auto& [name, array] : arrays_) name = own_name(name);
      std::erase_if(arrays_, [](const auto& array) { return !is_dotted(array.first); });
    }
    std::sort(arrays_.begin(), arrays_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [name, info] : arrays_) {
      if (info.offset < 0)
        throw Error(
            fmt::format("'{}' is stored in chunks or within its header; write it contiguous and "
                        "without compression, as h5py does without chunks= and compression=",
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
    throw Error(fmt::format("is damaged: the name '{}' is there twice", tensor.name));
  tensors_.push_back(std::move(tensor));
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
  fail_weights(path, error.what());
}

}  // namespace tessera
