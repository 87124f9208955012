// HDF5 files in compressed chunks, written through libhdf5; hdf5_layout.h writes all others. Takes
// the lock of hdf5_library.h for every call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/hdf5_layout.h"

namespace tessera {

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
  // values: all of it.
  void array(const ArraySpec& array, const void* values);
  // In chunks of `rows` rows that shuffle and gzip made smaller; append() brings the values.
  void begin_chunked(const ArraySpec& array, int64_t rows);
  // The next rows of the array begun last; `count` is a multiple of its chunk's but for the last.
  void append(const void* values, int64_t count);
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
