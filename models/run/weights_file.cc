#include "tessera/models/run/weights_file.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/array_file.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr char kFormat[] = "tessera weights", kInference[] = "inference";

SafeTensor tensor_of(const std::string& path, const ArraySpec& array) {
  if (array.name.find('/') != std::string::npos)
    fail_weights(path, fmt::format("'{}' cannot be the name of an array", array.name));
  if (array.dtype != "float32" && array.dtype != "float64")
    fail_weights(path, fmt::format("'{}' has dtype {}; float32 and float64 can be written",
                                   array.name, array.dtype));
  return safe_tensor(array);
}

ArrayFile open(const std::string& path) {
  try {
    ArrayFile file = open_arrays(std::make_unique<FileSource>(path), /*need_seal=*/false);
    if (const std::string format = file.text("format"); !format.empty() && format != kFormat)
      throw Error(fmt::format("has the format '{}', not '{}'; model.weights takes it",
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

void write_weights(const std::string& path, std::span<const ConstArray> arrays,
                   std::optional<int64_t> step, const std::string& inference) {
  std::vector<SafeTensor> tensors;
  for (const ConstArray& array : arrays) tensors.push_back(tensor_of(path, array));
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
  // In parts, from where the values lie: a copy of them all would be memory that nobody planned.
  std::map<uint64_t, std::span<const std::byte>> parts_at;
  for (size_t i = 0; i < arrays.size(); ++i)
    if (tensors[i].bytes > 0)
      parts_at[tensors[i].offset] = {static_cast<const std::byte*>(arrays[i].data),
                                     static_cast<size_t>(tensors[i].bytes)};
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(front))};
  for (const auto& [offset, part] : parts_at) parts.push_back(part);
  parts.emplace_back();
  if (const FileFault fault = write_sealed(file_system(), path.c_str(), std::span(parts)))
    fail_weights(path, fmt::format("cannot be written (to {} it: {})", fault.doing,
                                   std::strerror(fault.error)));
}

void read_weights(const std::string& path, std::span<const MutableArray> arrays) {
  const ArrayFile file = open(path);
  const std::string wrong = differences({arrays.begin(), arrays.end()}, file.contents.tensors);
  if (!wrong.empty()) fail_weights(path, "does not fit the model:" + wrong);
  for (const MutableArray& array : arrays) {
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

}  // namespace tessera
