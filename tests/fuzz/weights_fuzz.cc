// Any bytes as a safetensors file of weights, ours or not, give an error or tensors that can be
// read to their last element. HDF5 is left to libhdf5, which is not fuzzed here.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/models/run/array_file.h"
#include "tessera/models/run/weight_source.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static tessera::fuzz::MemoryFile file("x.safetensors");
  if (tessera::is_hdf5(tessera::MemorySource({reinterpret_cast<const std::byte*>(data), size})))
    return 0;
  try {
    const auto source = tessera::open_weight_source(file.hold(data, size));
    const std::string* before = nullptr;
    for (size_t i = 0; i < source->tensors().size(); ++i) {
      const tessera::SourceTensor& tensor = source->tensors()[i];
      if (before != nullptr && !(*before < tensor.name)) std::abort();
      before = &tensor.name;
      if (!tensor.usable) continue;
      if (tensor.elements() > size) std::abort();
      std::vector<double> values(tensor.elements());
      source->read(i, 0, values);
    }
  } catch (const tessera::CheckpointError&) {
  }
  return 0;
}
