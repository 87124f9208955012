// Named arrays in an HDF5 file: one data set per array under its dotted name ("layer1.0.conv.w"),
// readable by h5py. The root carries the attributes `format` ("tessera weights") and
// `format_version`, and the text `inference` (models/run/inference.h) is beside them. No tensors
// here.
//
// Written as models/data/formats/sealed_file.h says: whole or not at all, with a checksum. A file
// that another program changed or wrote has no checksum and is taken as it is, if
// models/data/formats/hdf5_read.h can read it.
//
// All functions throw CheckpointError, which names the file and what is wrong with it; a damaged or
// hostile file is an error, never a crash. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/hdf5_layout.h"

namespace tessera {

// float32 or float64 and a name without '/'.
struct ConstArray : ArraySpec {
  const void* data = nullptr;  // dense, row-major
};

struct MutableArray : ArraySpec {
  void* data = nullptr;
};

// `path` is the old file or the whole new one at any moment. Names must be unique.
// `step`: after how many steps of training; the root's attribute of that name. `inference`: the
// text; none is written where it is empty.
void write_weights(const std::string& path, std::span<const ConstArray> arrays,
                   std::optional<int64_t> step = {}, const std::string& inference = "");
// What was given then; none where nothing was, or another program wrote the file.
std::optional<int64_t> weights_step(const std::string& path);
std::string weights_inference(const std::string& path);

// Fills every array. The file must hold exactly these names, shapes and dtypes; each one that is
// missing, too many or different is listed. When anything is wrong no array has been touched,
// unless the disk fails while the values are read.
void read_weights(const std::string& path, std::span<const MutableArray> arrays);

// The arrays of numbers in the file, sorted by name.
std::vector<ArraySpec> list_weights(const std::string& path);

}  // namespace tessera
