// HDF5 files in compressed chunks, written through libhdf5; hdf5_layout.h writes all others. Takes
// the lock of hdf5_library.h for every call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/runtime/files/hdf5_layout.h"

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
