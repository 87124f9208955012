// Whole rows of an HDF5 data set, in the blocks that it is stored in: a row of chunks, however the
// chunks divide the other dimensions, so that each chunk is decoded once for all of its rows.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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

// Blocks of a data set that are made as a whole and read in parts: those used last are kept.
// Thread-safe. Takes its memory when it is made, and none later.
class BlockCache {
 public:
  // Makes a block: fills its bytes. Called without a lock, by several threads for different blocks.
  using Fill = std::function<void(int64_t block, uint8_t* to)>;
  // Keeps up to `slots` blocks, at least 1 and no more than there are.
  BlockCache(int64_t blocks, size_t block_bytes, int64_t slots, Fill fill);

  // Copies bytes of a block; fills it first where it is not kept, in place of the one that was not
  // used for longest. A thread that wants a block that another is filling waits for it. What fill
  // throws comes out here, and the block is not kept.
  void read(int64_t block, size_t offset, size_t count, uint8_t* to);

  static size_t host_bytes(int64_t blocks, size_t block_bytes, int64_t slots);

 private:
  struct Slot {
    int64_t block = -1;
    int32_t newer = -1, older = -1;  // in the order of use
    int32_t readers = 0;
    bool ready = false;  // false with a block: being filled
  };
  uint8_t* bytes_of(int32_t slot) const;
  void unlink(int32_t slot);
  void make_newest(int32_t slot);
  int32_t free_slot() const;  // -1: all are in use
  void fill(std::unique_lock<std::mutex>& lock, int32_t slot, int64_t block);

  const size_t block_bytes_;
  const Fill fill_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> where_;  // the slot of each block, or -1
  std::vector<Slot> slots_;
  int32_t newest_ = -1, oldest_ = -1;
  std::unique_ptr<uint8_t[]> bytes_;
};

}  // namespace tessera
