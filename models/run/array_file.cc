// Implements weights.h too.
#include "tessera/models/run/array_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/engine/storage.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/weights.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr char kVersion[] = "2", kLayout[] = "conv2d OHWI, linear OI, flatten HWC";

std::string text_of(const ArraySpec& array) {
  return fmt::format("{} [{}]", array.dtype, fmt::join(array.shape, "x"));
}

void check_own(const ArrayFile& file) {
  const auto need = [&](const char* name, const char* ours) {
    if (const std::string text = file.text(name); text != ours)
      throw Error(fmt::format("has {} '{}', but this program reads only '{}'", name,
                              text.substr(0, 64), ours));
  };
  need("format_version", kVersion);
  need("layout", kLayout);
}

constexpr char kFormat[] = "tessera weights", kInference[] = "inference";

SafeTensor tensor_of(const std::string& path, const ArraySpec& array) {
  if (array.name.find('/') != std::string::npos)
    fail_weights(path, fmt::format("'{}' cannot be the name of an array", array.name));
  if (array.dtype != "float32" && array.dtype != "float64")
    fail_weights(path, fmt::format("'{}' has dtype {}, but only float32 and float64 can be written",
                                   array.name, array.dtype));
  return safe_tensor(array);
}

ArrayFile open(const std::string& path) {
  try {
    ArrayFile file = open_arrays(std::make_unique<FileSource>(path), /*need_seal=*/false);
    if (const std::string format = file.text("format"); !format.empty() && format != kFormat)
      throw Error(fmt::format("has format '{}', not '{}'; load it with model.weights",
                              format.substr(0, 64), kFormat));
    for (const SafeTensor& tensor : file.contents.tensors)
      if (tensor.dtype != "F32" && tensor.dtype != "F64")
        throw Error(fmt::format("'{}' is neither float32 nor float64", tensor.name));
    return file;
  } catch (const Error& error) {
    fail_weights(path, error.what());
  }
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "values are copied as they are");

std::string ArrayFile::text(const std::string& name) const {
  for (const auto& [known, text] : contents.metadata)
    if (known == name) return text;
  return "";
}

const SafeTensor* ArrayFile::find(const std::string& name) const {
  const auto found = std::lower_bound(
      contents.tensors.begin(), contents.tensors.end(), name,
      [](const SafeTensor& tensor, const std::string& wanted) { return tensor.name < wanted; });
  return found != contents.tensors.end() && found->name == name ? &*found : nullptr;
}

ArrayFile open_arrays(std::unique_ptr<ByteSource> bytes, bool need_seal) {
  if (is_hdf5(*bytes))
    throw Error(
        "is an HDF5 file of an earlier version of this program and cannot be resumed; start a new "
        "training from these weights with model.weights=FILE");
  if (bytes->size() < kSealBytes)
    throw Error(fmt::format("is damaged: it has only {} bytes", bytes->size()));
  bool sealed = false;
  const bool holds = seal_holds(*bytes, sealed);
  if (sealed && !holds)
    throw Error("is damaged: its checksum does not match its bytes; use another copy");
  if (!sealed && need_seal) throw Error("is damaged: the checksum at its end is missing");
  ArrayFile file;
  try {
    file.contents = read_safetensors(*bytes);
  } catch (const SafetensorsError& error) {
    throw Error(fmt::format("is not a safetensors file, or is damaged: {}", error.what()));
  }
  const auto is_seal = [](const SafeTensor& tensor) { return tensor.spec() == kSealArray; };
  if (std::erase_if(file.contents.tensors, is_seal) > 0 && !sealed)
    throw Error("is damaged: the checksum at its end is missing");
  if (file.is_own()) check_own(file);
  file.bytes = std::move(bytes);
  return file;
}

SafetensorsMetadata own_metadata(const std::string& format) {
  return {{"format", format}, {"format_version", kVersion}, {"layout", kLayout}};
}

std::string differences(const std::vector<ArraySpec>& wanted,
                        const std::vector<SafeTensor>& found) {
  std::map<std::string, ArraySpec> there;
  for (const SafeTensor& tensor : found) there[tensor.name] = tensor.spec();
  std::string text;
  for (const ArraySpec& array : wanted) {
    auto it = there.find(array.name);
    if (it == there.end()) {
      text += fmt::format("\n  missing: '{}', {}", array.name, text_of(array));
      continue;
    }
    if (it->second != array)
      text += fmt::format("\n  different: '{}' is {} in the file, but {} in the model", array.name,
                          text_of(it->second), text_of(array));
    there.erase(it);
  }
  for (const auto& [name, array] : there)
    text += fmt::format("\n  unexpected: '{}', {}", name, text_of(array));
  return text;
}

bool is_hdf5(const ByteSource& file) {
  constexpr char kSignature[] = "\x89HDF\r\n\x1a\n";
  std::array<char, 8> front = {};
  if (file.size() >= front.size()) file.read(0, front.data(), front.size());
  return std::memcmp(front.data(), kSignature, front.size()) == 0;
}

void fail_weights(const std::string& path, const std::string& what) {
  throw CheckpointError(fmt::format("weights '{}': {}", path, what));
}

size_t weights_copy_bytes(const Tensors& persistent) {
  size_t bytes = 0;
  for (const Tensor& tensor : persistent)
    if (!tensor.device().is_cpu() && tensor.impl()->storage->role != Role::optimizer_state)
      bytes += round_to_alignment(tensor.spec().bytes());
  return bytes;
}

HostWeights::HostWeights(const Store& store)
    : copies_("weights", weights_copy_bytes(store.persistent()), cpu_memory()) {
  std::byte* free = copies_.data();
  for (const Tensors* list : {&store.parameters(), &store.buffers()})
    for (const Tensor& tensor : *list) {
      HostArray array;
      array.name = persistent_name(tensor);
      array.dtype = name_of(tensor.dtype());
      array.shape.assign(tensor.shape().begin(), tensor.shape().end());
      array.data = tensor.impl()->data();
      if (!tensor.device().is_cpu()) {
        array.data = free;
        free += round_to_alignment(tensor.spec().bytes());
        copied_.push_back({tensor, array.data});
      }
      arrays.push_back(std::move(array));
    }
}

void HostWeights::fetch() const {
  for (const auto& [tensor, host] : copied_)
    context(tensor.device()).copy_to_host(host, tensor.impl()->data(), tensor.spec().bytes());
}

void HostWeights::put() const {
  for (const auto& [tensor, host] : copied_)
    context(tensor.device()).copy_from_host(tensor.impl()->data(), host, tensor.spec().bytes());
}

void write_weights(const std::string& path, std::span<const HostArray> arrays,
                   std::optional<int64_t> step, const std::string& inference) {
  std::vector<SafeTensor> tensors;
  for (const HostArray& array : arrays) tensors.push_back(tensor_of(path, array));
  tensors.push_back(safe_tensor(kSealArray));
  SafetensorsMetadata metadata = own_metadata(kFormat);
  if (step && *step > 0) metadata.emplace_back("step", std::to_string(*step));
  if (!inference.empty()) metadata.emplace_back(kInference, inference);
  std::string front;
  try {
    front = safetensors_front(tensors, metadata);
  } catch (const Error& error) {
    fail_weights(path, error.what());
  }
  // Writes the parts from the arrays themselves: a copy of all values would be unplanned memory.
  std::map<uint64_t, std::span<const std::byte>> parts_at;
  for (size_t i = 0; i < arrays.size(); ++i)
    if (tensors[i].bytes > 0)
      parts_at[tensors[i].offset] = {static_cast<const std::byte*>(arrays[i].data),
                                     static_cast<size_t>(tensors[i].bytes)};
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(front))};
  for (const auto& [offset, part] : parts_at) parts.push_back(part);
  parts.emplace_back();
  if (const FileError fault = write_sealed(file_system(), path.c_str(), std::span(parts)))
    fail_weights(path, fmt::format("cannot be written ({} failed: {})", fault.operation,
                                   std::strerror(fault.error)));
}

void read_weights(const std::string& path, std::span<const HostArray> arrays) {
  const ArrayFile file = open(path);
  const std::string wrong = differences({arrays.begin(), arrays.end()}, file.contents.tensors);
  if (!wrong.empty()) fail_weights(path, "does not fit the model:" + wrong);
  for (const HostArray& array : arrays) {
    const SafeTensor& found = *file.find(array.name);
    try {
      file.bytes->read(found.offset, array.data, static_cast<size_t>(found.bytes));
    } catch (const Error& error) {
      fail_weights(path, error.what());
    }
  }
}

std::optional<int64_t> weights_step(const std::string& path) {
  const std::string text = open(path).text("step");
  int64_t step = 0;
  std::from_chars(text.data(), text.data() + text.size(), step);
  return step > 0 ? std::optional<int64_t>(step) : std::nullopt;
}

std::string weights_inference(const std::string& path) { return open(path).text(kInference); }

void save_weights(Store& store, const std::string& path, std::optional<int64_t> step,
                  const std::string& inference) {
  const HostWeights weights(store);
  weights.fetch();
  write_weights(path, weights.arrays, step, inference);
}

void load_weights(Store& store, const std::string& path) {
  const HostWeights weights(store);
  read_weights(path, weights.arrays);
  weights.put();
}

}  // namespace tessera
