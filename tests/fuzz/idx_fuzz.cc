// Any pair of IDX files is refused with a DataError, or is a data set whose images can all be read.
// The first byte says which of the two are compressed, the next two give the length of the first.
#include <vector>

#include "memory_file.h"

#include "tessera/models/data/sets/published.h"
#include "tessera/runtime/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tessera;
  static fuzz::MemoryFile files[] = {fuzz::MemoryFile("images"), fuzz::MemoryFile("images.gz"),
                                     fuzz::MemoryFile("labels"), fuzz::MemoryFile("labels.gz")};
  if (size < 3) return 0;
  size_t first = std::min<size_t>(bytes[1] * 256u + bytes[2], size - 3);
  const std::string& images = files[bytes[0] & 1].hold(bytes + 3, first);
  const std::string& labels =
      files[2 + (bytes[0] >> 1 & 1)].hold(bytes + 3 + first, size - 3 - first);
  DatasetInfo info;
  info.name = "fuzz";
  info.classes = 10;
  try {
    auto data = read_idx(images, labels, info);
    std::vector<uint8_t> image(static_cast<size_t>(data->shape().bytes()));
    for (int64_t i = 0; i < data->count(); ++i) {
      data->read(i, image.data());
      if (data->label(i) < 0 || data->label(i) >= 10) __builtin_trap();
    }
  } catch (const DataError&) {
  }
  return 0;
}
