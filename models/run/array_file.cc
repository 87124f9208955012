#include "tessera/models/run/array_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/data/formats/sealed_file.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "values are copied as they are");

namespace {

constexpr char kVersion[] = "2", kLayout[] = "conv2d OHWI, linear OI, flatten HWC";

std::string text_of(const ArraySpec& array) {
  return fmt::format("{} [{}]", array.dtype, fmt::join(array.shape, "x"));
}

void check_own(const ArrayFile& file) {
  const auto need = [&](const char* name, const char* ours) {
    if (const std::string text = file.text(name); text != ours)
      throw Error(
          fmt::format("has the {} '{}', this program reads '{}'", name, text.substr(0, 64), ours));
  };
  need("format_version", kVersion);
  need("layout", kLayout);
}

}  // namespace

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
        "is HDF5, as earlier versions of this program wrote it, and is not gone on from; train "
        "anew "
        "with model.weights=FILE, which begins with these weights");
  if (bytes->size() < kSealBytes)
    throw Error(fmt::format("is damaged: it has only {} bytes", bytes->size()));
  bool sealed = false;
  const bool holds = seal_holds(*bytes, sealed);
  if (sealed && !holds)
    throw Error("is damaged: its checksum is not that of its bytes; use another copy");
  if (!sealed && need_seal) throw Error("is damaged: the checksum at its end is missing");
  ArrayFile file;
  try {
    file.contents = read_safetensors(*bytes);
  } catch (const SafetensorsError& error) {
    throw Error(fmt::format("is no safetensors file, or a damaged one: {}", error.what()));
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
    text += fmt::format("\n  too many: '{}', {}", name, text_of(array));
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

}  // namespace tessera
