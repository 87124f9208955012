// ArrayFile: a safetensors file of ours, which is weights or a checkpoint; what reading the two has
// in common.
//
//   metadata  format           "tessera weights" or "tessera checkpoint"
//             format_version   "2"; version 1 was HDF5
//             layout           of the values: "conv2d OHWI, linear OI, flatten HWC"
//   tensors   the arrays, by our own names, and the checksum (sealed_file.h)
//
// Whoever reads the values in another layout converts them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/array_spec.h"
#include "tessera/models/data/formats/safetensors.h"

namespace tessera {

// A safetensors file, ours or not, whose checksum was found right if it has one.
struct ArrayFile {
  std::unique_ptr<ByteSource> bytes;
  SafetensorsContents contents;  // without the checksum

  // A text of the metadata; "" if there is none.
  std::string text(const std::string& name) const;
  bool is_own() const { return text("format").starts_with("tessera "); }
  const SafeTensor* find(const std::string& name) const;
};

// need_seal: false lets a file of another program pass, which has no checksum. Throws Error without
// the file's name, also for a file of ours of another version or layout.
ArrayFile open_arrays(std::unique_ptr<ByteSource> bytes, bool need_seal);

// The metadata that a file of ours begins with.
SafetensorsMetadata own_metadata(const std::string& format);

// Every difference between what is wanted and what is there, one a line; "" when there is none.
std::string differences(const std::vector<ArraySpec>& wanted, const std::vector<SafeTensor>& found);

bool is_hdf5(const ByteSource& file);

// Throws CheckpointError, "weights 'PATH': WHAT".
[[noreturn]] void fail_weights(const std::string& path, const std::string& what);

// Weights are named arrays in such a file: one tensor per array under its dotted
// name ("layer1.0.conv.w"). The metadata has besides `step`, and `inference`
// (models/run/inference.h). No tensors of the engine here.
//
// Written as models/data/formats/sealed_file.h says: whole or not at all, with a checksum. A file
// that another program wrote has no checksum and is taken as it is.
//
// All functions throw CheckpointError, which names the file and what is wrong with it; a damaged or
// hostile file is an error, never a crash. Thread-safe.
//
// An array is of float32 or float64 and a name without '/'.
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
// Return what was given then; none where nothing was, or another program wrote the file.
std::optional<int64_t> weights_step(const std::string& path);
std::string weights_inference(const std::string& path);

// Fills every array. The file must hold exactly these names, shapes and dtypes; each one that is
// missing, too many or different is listed. When anything is wrong no array has been touched,
// unless the disk fails while the values are read.
void read_weights(const std::string& path, std::span<const MutableArray> arrays);

}  // namespace tessera
