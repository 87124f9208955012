// The reader of safetensors files: any bytes give an error, or tensors that can all be read and
// whose values fill the bytes after the header, each byte once.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tessera/models/data/formats/safetensors.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemorySource file({reinterpret_cast<const std::byte*>(data), size});
  SafetensorsContents contents;
  try {
    contents = read_safetensors(file);
  } catch (const SafetensorsError&) {
    return 0;
  }
  std::map<uint64_t, uint64_t> ends;  // tensors that are not empty
  const std::string* before = nullptr;
  for (const SafeTensor& tensor : contents.tensors) {
    if (before != nullptr && !(*before < tensor.name)) std::abort();
    before = &tensor.name;
    if (tensor.offset > size || tensor.bytes > size - tensor.offset) std::abort();
    if (tensor.bytes > 0 && !ends.emplace(tensor.offset, tensor.offset + tensor.bytes).second)
      std::abort();
    uint64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= static_cast<uint64_t>(extent);
    if (elements != tensor.elements()) std::abort();
    if (!is_fractional(tensor.dtype)) continue;
    std::vector<double> values(tensor.elements());
    read_values(file, tensor, 0, values);
  }
  if (ends.empty()) return 0;
  uint64_t at = ends.begin()->first;
  for (const auto& [begin, end] : ends) {
    if (begin != at) std::abort();
    at = end;
  }
  if (at != size) std::abort();
  return 0;
}
