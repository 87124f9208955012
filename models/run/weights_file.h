// Named arrays in a safetensors file of ours (array_file.h): one tensor per array under its dotted
// name ("layer1.0.conv.w"). The metadata has besides what array_file.h says `step`, and `inference`
// (models/run/inference.h). No tensors of the engine here.
//
// Written as models/data/formats/sealed_file.h says: whole or not at all, with a checksum. A file
// that another program wrote has no checksum and is taken as it is.
//
// All functions throw CheckpointError, which names the file and what is wrong with it; a damaged or
// hostile file is an error, never a crash. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tessera/models/data/formats/array_spec.h"

namespace tessera {

// float32 or float64 and a name without '/'.
struct ConstArray : ArraySpec {
  const void* data = nullptr;  // dense, row-major
};

struct MutableArray : ArraySpec {
  void* data = nullptr;
};

// `path` is the old file or the whole new one at any moment. Names must be unique.
// `step`: after how many steps of training. `inference`: the text; none is written where it is
// empty.
void write_weights(const std::string& path, std::span<const ConstArray> arrays,
                   std::optional<int64_t> step = {}, const std::string& inference = "");
// What was given then; none where nothing was, or another program wrote the file.
std::optional<int64_t> weights_step(const std::string& path);
std::string weights_inference(const std::string& path);

// Fills every array. The file must hold exactly these names, shapes and dtypes; each one that is
// missing, too many or different is listed. When anything is wrong no array has been touched,
// unless the disk fails while the values are read.
void read_weights(const std::string& path, std::span<const MutableArray> arrays);

}  // namespace tessera
