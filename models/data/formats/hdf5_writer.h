// Hdf5Writer: writes HDF5 files of named arrays through libhdf5, under an Hdf5Lock for every call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/safetensors.h"

namespace tessera {

// A string if `text` is not empty, else an integer.
struct Hdf5Attribute {
  std::string name, text;
  int32_t number = 0;
};

// Writes arrays and attributes of the root; creates groups as they are named. Equal contents give
// equal bytes with the same version of libhdf5. Throws Error naming the file.
class Hdf5Writer {
 public:
  // Replaces an existing file.
  explicit Hdf5Writer(const std::string& path);
  ~Hdf5Writer();  // without close() the file is incomplete
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  void attribute(const Hdf5Attribute& attribute);
  // Writes a list of strings as an attribute of a group ("" is the root), which is created if it
  // does not exist. A list too long for one attribute is written as "name0", "name1" and so on.
  void texts(const std::string& group, const std::string& name,
             const std::vector<std::string>& list);
  // Writes an array with all its values. Its dtype is uint8, int32, int64, float32, float64, or
  // "text": UTF-8 of shape {its bytes}, which h5py shows as one value.
  void array(const ArraySpec& array, const void* values);
  // Begins an array whose values append() writes, in chunks of `chunk` rows compressed with shuffle
  // and gzip; 0: contiguous.
  void begin(const ArraySpec& array, int64_t chunk);
  // Writes the next rows of that array. `count` is a multiple of `chunk`, except in the last call.
  void append(const void* values, int64_t count);
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
