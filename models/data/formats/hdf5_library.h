// HDF5 files that users bring, through libhdf5: every version of the format, nested groups, chunks,
// types of many kinds. Our own weights and checkpoints are no HDF5 (safetensors.h), because libhdf5
// believes what a file says: a file made to do harm can end the process here.
//
// Refused by name, with a remedy: links and data that lead to other files (external links, external
// storage, virtual data sets), filters other than gzip, shuffle and fletcher32, types that are no
// numbers or texts. No filter plug-in is ever loaded, and libhdf5 decodes and caches no chunk.
//
// Thread-safe: one lock for every call of libhdf5 in here, which is not. A program that calls
// libhdf5 itself at the same time must keep to one thread, or use a libhdf5 built to be
// thread-safe. Everything throws DataError naming the file, unless it says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/hdf5_chunk.h"

namespace tessera {

// What a data set of numbers is.
struct Hdf5DataInfo {
  std::string file, path;      // "data.h5", "/train/images"
  std::vector<int64_t> shape;  // 1 to kMaxAxes extents, each at least 1
  Hdf5Number type;
  std::vector<int64_t> chunk;       // extents of one; empty: in one piece
  std::vector<Hdf5Filter> filters;  // in the order in which they were applied
  int64_t file_bytes = 0;           // of the whole file
  int64_t offset = -1;  // in it, of values in one piece; -1: they lie in chunks or in the header
};

// A data set of numbers whose stored bytes can be read. Thread-safe.
class Hdf5Data {
 public:
  explicit Hdf5Data(Hdf5DataInfo info) : info_(std::move(info)) {}
  virtual ~Hdf5Data() = default;
  Hdf5Data(const Hdf5Data&) = delete;
  Hdf5Data& operator=(const Hdf5Data&) = delete;

  const Hdf5DataInfo& info() const { return info_; }
  // Of a data set in chunks: puts the bytes of the one that begins at the element `first`, as
  // filters left them, into `to` and returns how many they are. Bit i of `skipped`: filter i was
  // not applied to this one. Throws DataError, without the name of the file.
  virtual size_t read_chunk(std::span<const int64_t> first, std::span<std::byte> to,
                            uint32_t& skipped) const = 0;
  // Of one in one piece: rows [first, first + count) of its outermost dimension fill `to`.
  virtual void read_rows(int64_t first, int64_t count, std::span<std::byte> to) const = 0;

 private:
  const Hdf5DataInfo info_;
};

class Hdf5File {
 public:
  explicit Hdf5File(const std::string& path);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  const std::string& path() const;
  // What libhdf5 holds for an open file at most, its chunk caches being off.
  static constexpr size_t kHostBytes = size_t{1} << 20;

  // A place is the path of a data set or group, "/train/images", or of an attribute of one,
  // "/train/labels@names", "/@names".
  bool has(const std::string& place) const;
  // Checks type, shape, storage and filters, and that the file is large enough for the shape.
  std::shared_ptr<const Hdf5Data> open(const std::string& path) const;
  // Whether there is a data set of floats with an extent, which open() takes if it is sound.
  bool has_floats(const std::string& path) const;
  // Texts of fixed or variable length, ASCII or UTF-8, up to 65536 of 16 MiB together; of a single
  // one its lines. What is no printable character becomes '?'. any_number: none may be there, too.
  enum class Texts { some, any_number };
  std::vector<std::string> texts(const std::string& place, Texts count = Texts::some) const;
  // Up to 65536 numbers of any type.
  std::vector<double> numbers(const std::string& place) const;
  // Paths of the data sets, in the order of their names; the first so many.
  std::vector<std::string> list(size_t most = 64) const;

 private:
  class Impl;
  const std::shared_ptr<const Impl> impl_;
};

}  // namespace tessera
