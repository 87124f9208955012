// Whole rows of an HDF5 data set, in the blocks that it is stored in: a row of chunks, however the
// chunks divide the other dimensions, so that each chunk is decoded once for all of its rows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/models/data/formats/hdf5_library.h"

namespace tessera {

// Thread-safe; each thread brings a Work of its own.
class Hdf5Blocks {
 public:
  // rows: what errors call them, "images".
  Hdf5Blocks(std::shared_ptr<const Hdf5Data> data, std::string rows);

  const Hdf5DataInfo& info() const { return data_->info(); }
  int64_t count() const { return (info().shape[0] - 1) / rows_ + 1; }
  // Of a block; the last may have fewer.
  int64_t rows() const { return rows_; }

  // The memory that a thread reads with.
  struct Work {
    std::unique_ptr<ChunkDecoder> decoder;  // of chunks
    std::unique_ptr<std::byte[]> stored;    // of rows in one piece
  };
  Work make_work() const;
  size_t work_bytes() const;

  // Gives use(bytes, to, count, step) every value of the block: `count` of them lie at `bytes` one
  // behind the other and belong to the places to, to + step, ... of an array in which the element
  // (i0, i1, ...) of the block has the place i0 * strides[0] + i1 * strides[1] + ... Throws
  // DataError naming file, data set, chunk and rows when they cannot be read, and what `use`
  // throws.
  using Use = std::function<void(const std::byte*, int64_t, int64_t, int64_t)>;
  void read(int64_t block, std::span<const int64_t> strides, Work& work, const Use& use) const;

 private:
  void read_chunks(int64_t block, std::span<const int64_t> strides, Work& work,
                   const Use& use) const;
  void read_chunk(std::span<const int64_t> first, std::span<const int64_t> strides, Work& work,
                  const Use& use) const;

  const std::shared_ptr<const Hdf5Data> data_;
  const std::string name_;
  int64_t rows_ = 0;
  size_t row_bytes_ = 0, chunk_bytes_ = 0;
};

}  // namespace tessera
