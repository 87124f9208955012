// Hdf5File: reads users' HDF5 files through libhdf5: every version of the format, nested groups,
// chunks, types of many kinds. Our own weights and checkpoints are safetensors files
// (safetensors.h) instead, because libhdf5 trusts a file: a malicious one can crash the process.
//
// Errors name the object and a remedy for: links and data in other files (external links, external
// storage, virtual data sets), filters other than gzip, shuffle and fletcher32, types that are no
// numbers or strings. No filter plug-in is ever loaded, and libhdf5 decodes and caches no chunk.
//
// Thread-safe: one lock for every call of libhdf5, which is not. A program that also calls libhdf5
// itself must use one thread, or a thread-safe build of libhdf5. All functions throw DataError
// naming the file, unless they say otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/hdf5_chunk.h"
#include "tessera/models/data/formats/hdf5_lock.h"

namespace tessera {

// The type, shape and storage of a data set of numbers.
struct Hdf5DataInfo {
  std::string file, path;      // "data.h5", "/train/images"
  std::vector<int64_t> shape;  // 1 to kMaxAxes extents, each at least 1
  Hdf5Number type;
  std::vector<int64_t> chunk;       // extents of a chunk; empty: contiguous
  std::vector<Hdf5Filter> filters;  // in the order of application
  int64_t file_bytes = 0;           // size of the whole file
  int64_t offset = -1;              // offset of contiguous values; -1: in chunks or in the header
};

// A data set of numbers whose stored bytes can be read. Thread-safe.
class Hdf5Data {
 public:
  explicit Hdf5Data(Hdf5DataInfo info) : info_(std::move(info)) {}
  virtual ~Hdf5Data() = default;
  Hdf5Data(const Hdf5Data&) = delete;
  Hdf5Data& operator=(const Hdf5Data&) = delete;

  const Hdf5DataInfo& info() const { return info_; }
  // Reads the stored bytes, filters not reversed, of the chunk that begins at element `first` into
  // `to` and returns their number. Bit i of `skipped`: filter i was not applied to this chunk.
  // Requires chunks. Throws DataError, without the name of the file.
  virtual size_t read_chunk(std::span<const int64_t> first, std::span<std::byte> to,
                            uint32_t& skipped) const = 0;
  // Reads rows [first, first + count) of the outermost dimension, which fill `to`. Requires no
  // chunks.
  virtual void read_rows(int64_t first, int64_t count, std::span<std::byte> to) const = 0;

 private:
  const Hdf5DataInfo info_;
};

class Hdf5File {
 public:
  explicit Hdf5File(const std::string& path);
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  const std::string& path() const { return path_; }
  // Maximum memory of libhdf5 for an open file; its chunk caches are off.
  static constexpr size_t kHostBytes = size_t{1} << 20;

  // A place is the path of a data set or group, "/train/images", or of an attribute of one,
  // "/train/labels@names", "/@names".
  bool has(const std::string& place) const;
  // Checks type, shape, storage and filters, and that the file is large enough for the shape.
  std::shared_ptr<const Hdf5Data> open(const std::string& path) const;
  // Returns true for a data set of floats that is no scalar, which open() accepts if it is sound.
  bool has_floats(const std::string& path) const;
  // Returns strings of fixed or variable length, ASCII or UTF-8, up to 65536 of 16 MiB in all, or
  // the lines of a scalar string. Unprintable characters become '?'. any_number accepts an empty
  // list.
  enum class Texts { some, any_number };
  std::vector<std::string> texts(const std::string& place, Texts count = Texts::some) const;
  // Returns up to 65536 numbers of any type.
  std::vector<double> numbers(const std::string& place) const;
  // Returns the paths of the first `most` data sets, in the order of their names.
  std::vector<std::string> list(size_t most = 64) const;

 private:
  struct Values;
  // All but fail() require the lock.
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void fail_at(const std::string& place, const std::string& why) const;
  Hdf5Id root() const;
  Hdf5Id find(const std::string& path) const;
  Hdf5Id need(const std::string& path, bool data_set) const;
  std::string listed() const;
  void check_storage(const std::string& path, int64_t creation) const;
  std::vector<Hdf5Filter> filters_of(const std::string& path, int64_t creation) const;
  void check_size(const Hdf5DataInfo& info, int64_t data) const;
  Values values(const std::string& place, int64_t least = 1) const;
  std::vector<std::string> variable_texts(const std::string& place, const Values& from) const;
  std::vector<std::string> fixed_texts(const std::string& place, const Values& from) const;

  const std::string path_;
  int64_t bytes_ = 0;
  std::shared_ptr<const Hdf5Id> file_;  // its data sets keep it open, too
};

}  // namespace tessera
