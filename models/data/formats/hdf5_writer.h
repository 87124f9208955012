// HDF5 files of named arrays, written through libhdf5. Takes the lock of hdf5_library.h for every
// call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/array_spec.h"

namespace tessera {

// A text when `text` is not empty, otherwise a whole number.
struct Hdf5Attribute {
  std::string name, text;
  int32_t number = 0;
};

// Writes arrays and attributes of the root; groups are made as they are named. Equal contents give
// equal bytes with one version of libhdf5. Throws Error naming the file.
class Hdf5Writer {
 public:
  // Replaces what stands there.
  explicit Hdf5Writer(const std::string& path);
  ~Hdf5Writer();  // what was not closed is not whole
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  void attribute(const Hdf5Attribute& attribute);
  // A list of texts as an attribute of a group ("" is the root), which is made where it is not
  // there; in parts of their own, "name0", "name1" and so on, where it is longer than an attribute
  // can be.
  void texts(const std::string& group, const std::string& name,
             const std::vector<std::string>& list);
  // Writes an array with all its values. Its dtype is uint8, int32, int64, float32, float64, or
  // "text": UTF-8 of shape {its bytes}, which h5py shows as one value.
  void array(const ArraySpec& array, const void* values);
  // Begins an array whose values append() brings, in chunks of `chunk` rows that shuffle and gzip
  // made smaller; 0: in one piece.
  void begin(const ArraySpec& array, int64_t chunk);
  // The next rows of the array begun last; `count` is a multiple of its chunk's but for the last.
  void append(const void* values, int64_t count);
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
