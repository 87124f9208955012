// Named arrays in an HDF5 file: one data set per array under its dotted name ("layer1.0.conv.w"),
// readable by h5py. The root carries the attributes `format` ("tessera weights") and
// `format_version`. No tensors here.
//
// All functions throw CheckpointError, which names the file and what is wrong with it; a damaged
// file is an error, never a crash. The HDF5 library is not thread-safe: one call at a time (a lock
// in here sees to that).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

// What an array is. dtype is "float32" or "float64".
struct ArraySpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;  // empty: a scalar
  bool operator==(const ArraySpec&) const = default;
};

struct ConstArray : ArraySpec {
  const void* data = nullptr;  // dense, row-major
};

struct MutableArray : ArraySpec {
  void* data = nullptr;
};

// Writes a new file beside `path`, puts it on the disk and renames it, so that `path` is the old
// file or the whole new one at any moment. Names must be unique, not empty and without '/'.
void write_weights(const std::string& path, std::span<const ConstArray> arrays);

// Fills every array. The file must hold exactly these names, shapes and dtypes; each one that is
// missing, too many or different is listed. When anything is wrong no array has been touched,
// unless the data themselves cannot be read.
void read_weights(const std::string& path, std::span<const MutableArray> arrays);

// What is in the file, sorted by name.
std::vector<ArraySpec> list_weights(const std::string& path);

}  // namespace tessera
