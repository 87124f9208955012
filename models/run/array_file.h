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

#include <memory>
#include <string>
#include <vector>

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

}  // namespace tessera
