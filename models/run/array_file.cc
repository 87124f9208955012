#include "tessera/models/run/array_file.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/data/formats/sealed_file.h"

namespace tessera {

namespace {

std::string text_of(const ArraySpec& array) {
  return fmt::format("{} [{}]", array.dtype, fmt::join(array.shape, "x"));
}

}  // namespace

int32_t ArrayFile::number(const std::string& attribute) const {
  for (const Hdf5Attribute& known : contents.attributes)
    if (known.name == attribute && known.text.empty()) return known.number;
  return 0;
}

std::string ArrayFile::text(const std::string& attribute) const {
  for (const Hdf5Attribute& known : contents.attributes)
    if (known.name == attribute) return known.text;
  return "";
}

const Hdf5Array* ArrayFile::find(const std::string& name) const {
  const auto found = std::lower_bound(
      contents.arrays.begin(), contents.arrays.end(), name,
      [](const Hdf5Array& array, const std::string& wanted) { return array.name < wanted; });
  return found != contents.arrays.end() && found->name == name ? &*found : nullptr;
}

ArrayFile open_arrays(std::unique_ptr<ByteSource> bytes, bool need_seal, Hdf5Groups groups) {
  if (bytes->size() < kSealBytes)
    throw Error(fmt::format("is damaged: it has only {} bytes", bytes->size()));
  bool sealed = false;
  const bool holds = seal_holds(*bytes, sealed);
  if (sealed && !holds)
    throw Error("is damaged: its checksum is not that of its bytes; use another copy");
  if (!sealed && need_seal) throw Error("is damaged: the checksum at its end is missing");
  ArrayFile file;
  try {
    file.contents = read_hdf5(*bytes, groups);
  } catch (const Hdf5Error& error) {
    throw Error(fmt::format("is no HDF5 file of the kind that is read here, or a damaged one: {}",
                            error.what()));
  }
  if (!sealed && file.contents.end != bytes->size())
    throw Error("is damaged: the checksum at its end is missing");
  file.bytes = std::move(bytes);
  return file;
}

std::string differences(const std::vector<ArraySpec>& wanted, const std::vector<Hdf5Array>& found) {
  std::map<std::string, const ArraySpec*> there;
  for (const Hdf5Array& array : found) there[array.name] = &array;
  std::string text;
  for (const ArraySpec& array : wanted) {
    auto it = there.find(array.name);
    if (it == there.end()) {
      text += fmt::format("\n  missing: '{}', {}", array.name, text_of(array));
      continue;
    }
    if (it->second->dtype != array.dtype || it->second->shape != array.shape)
      text += fmt::format("\n  different: '{}' is {} in the file, but {} in the model", array.name,
                          text_of(*it->second), text_of(array));
    there.erase(it);
  }
  for (const auto& [name, array] : there)
    text += fmt::format("\n  too many: '{}', {}", name, text_of(*array));
  return text;
}

}  // namespace tessera
