// Any file is refused with a DataError, or is a data set whose images can all be read. The first
// byte is the format.
#include <vector>

#include "memory_file.h"

#include "tessera/models/data/sets/published.h"
#include "tessera/runtime/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tessera;
  static fuzz::MemoryFile file("batch.bin");
  if (size < 1) return 0;
  CifarFormat format;
  format.label_bytes = 1 + (bytes[0] & 1);
  format.label_at = (bytes[0] & 3) == 3 ? 1 : 0;
  format.records_per_file = 1 + (bytes[0] >> 2 & 1);
  DatasetInfo info;
  info.name = "fuzz";
  info.classes = 1 + (bytes[0] >> 3);
  const std::string& path = file.hold(bytes + 1, size - 1);
  try {
    auto data = read_cifar({path, path}, format, info);
    std::vector<uint8_t> image(static_cast<size_t>(data->shape().bytes()));
    for (int64_t i = 0; i < data->count(); ++i) {
      data->read(i, image.data());
      if (data->label(i) < 0 || data->label(i) >= data->classes()) __builtin_trap();
    }
  } catch (const DataError&) {
  }
  return 0;
}
