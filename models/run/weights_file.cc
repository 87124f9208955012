#include "tessera/models/run/weights_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/array_file.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int kFormatVersion = 1;
constexpr char kFormat[] = "tessera weights", kInference[] = "inference";

[[noreturn]] void fail_writing(const std::string& path, const std::string& what) {
  throw CheckpointError(fmt::format("weights '{}': {}", path, what));
}

Hdf5Layout layout_of(const std::string& path, std::span<const ConstArray> arrays,
                     std::optional<int64_t> step, const std::string& inference) {
  for (const ConstArray& array : arrays) {
    if (array.name.find('/') != std::string::npos)
      fail_writing(path, fmt::format("'{}' cannot be the name of an array", array.name));
    if (array.dtype != "float32" && array.dtype != "float64")
      fail_writing(path, fmt::format("'{}' has dtype {}; float32 and float64 can be written",
                                     array.name, array.dtype));
  }
  try {
    std::vector<Hdf5Attribute> attributes = {{"format", kFormat},
                                             {"format_version", "", kFormatVersion}};
    if (step && *step > 0 && *step <= INT32_MAX)
      attributes.push_back({"step", "", static_cast<int32_t>(*step)});
    std::vector<ArraySpec> specs(arrays.begin(), arrays.end());
    if (!inference.empty())
      specs.push_back({kInference, "text", {static_cast<int64_t>(inference.size())}});
    return Hdf5Layout(std::move(specs), std::move(attributes));
  } catch (const Error& error) {
    fail_writing(path, error.what());
  }
}

bool is_inference(const Hdf5Array& array) {
  return array.name == kInference && array.dtype == "text";
}

// Without the text.
std::vector<Hdf5Array> weights_in(const ArrayFile& file) {
  std::vector<Hdf5Array> weights = file.contents.arrays;
  std::erase_if(weights, is_inference);
  return weights;
}

ArrayFile open(const std::string& path) {
  try {
    ArrayFile file = open_arrays(std::make_unique<FileSource>(path), /*need_seal=*/false);
    const int version = file.number("format_version");
    if (version < 0 || version > kFormatVersion)
      throw Error(fmt::format("has the format version {}, this program reads up to {}", version,
                              kFormatVersion));
    for (const Hdf5Array& array : file.contents.arrays)
      if (array.name.find('/') != std::string::npos)
        throw Error(fmt::format(
            "'{}' lies in a group; the names of weights are dotted, at the root", array.name));
      else if (array.dtype != "float32" && array.dtype != "float64" && !is_inference(array))
        throw Error(fmt::format("'{}' is neither float32 nor float64", array.name));
    return file;
  } catch (const Error& error) {
    fail_writing(path, error.what());
  }
}

}  // namespace

void write_weights(const std::string& path, std::span<const ConstArray> arrays,
                   std::optional<int64_t> step, const std::string& inference) {
  // In parts, from where the values lie: a copy of them all would be memory that nobody planned.
  constexpr std::byte kZeros[64] = {};
  const Hdf5Layout layout = layout_of(path, arrays, step, inference);
  std::vector<std::byte> front(layout.front_bytes());
  layout.write(front);
  std::vector<std::span<const std::byte>> parts = {front};
  size_t at = front.size();
  const auto zeros_until = [&](size_t place) {
    for (size_t count; at < place; at += count) {
      count = std::min(sizeof kZeros, place - at);
      parts.emplace_back(kZeros, count);
    }
  };
  for (size_t i = 0; i < layout.arrays().size(); ++i) {
    if (layout.array_bytes(i) == 0) continue;
    zeros_until(layout.offset(i));
    const void* values = i < arrays.size() ? arrays[i].data : inference.data();
    parts.emplace_back(static_cast<const std::byte*>(values), layout.array_bytes(i));
    at += layout.array_bytes(i);
  }
  zeros_until(layout.bytes());
  parts.emplace_back();
  if (const FileFault fault = write_sealed(file_system(), path.c_str(), std::span(parts)))
    fail_writing(path, fmt::format("cannot be written (to {} it: {})", fault.doing,
                                   std::strerror(fault.error)));
}

void read_weights(const std::string& path, std::span<const MutableArray> arrays) {
  const ArrayFile file = open(path);
  const std::string wrong = differences({arrays.begin(), arrays.end()}, weights_in(file));
  if (!wrong.empty()) fail_writing(path, "does not fit the model:" + wrong);
  for (const MutableArray& array : arrays) {
    const Hdf5Array& found = *file.find(array.name);
    try {
      file.bytes->read(found.offset, array.data, static_cast<size_t>(found.bytes));
    } catch (const Error& error) {
      fail_writing(path, error.what());
    }
  }
}

std::optional<int64_t> weights_step(const std::string& path) {
  const int32_t step = open(path).number("step");
  return step > 0 ? std::optional<int64_t>(step) : std::nullopt;
}

std::string weights_inference(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{8} << 20;
  const ArrayFile file = open(path);
  const Hdf5Array* text = file.find(kInference);
  if (text == nullptr || !is_inference(*text) || text->bytes > kMost) return "";
  std::string inference(static_cast<size_t>(text->bytes), ' ');
  try {
    file.bytes->read(text->offset, inference.data(), inference.size());
  } catch (const Error& error) {
    fail_writing(path, error.what());
  }
  return inference;
}

std::vector<ArraySpec> list_weights(const std::string& path) {
  const std::vector<Hdf5Array> found = weights_in(open(path));
  return {found.begin(), found.end()};
}

}  // namespace tessera
