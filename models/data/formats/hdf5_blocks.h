// Reads an HDF5 data set in blocks of whole rows. A block is a row of chunks, however the chunks
// divide the other dimensions, so that each chunk is decoded once for all of its rows.
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

// The blocks of a data set. Thread-safe if each thread uses a Work of its own.
class Hdf5Blocks {
 public:
  // rows: the name of the rows in errors, "images".
  Hdf5Blocks(std::shared_ptr<const Hdf5Data> data, std::string rows);

  const Hdf5DataInfo& info() const { return data_->info(); }
  int64_t count() const { return (info().shape[0] - 1) / rows_ + 1; }
  // Returns the rows of a block; the last block may have fewer.
  int64_t rows() const { return rows_; }

  // The memory with which a thread reads.
  struct Work {
    std::unique_ptr<ChunkDecoder> decoder;  // for chunks
    std::unique_ptr<std::byte[]> stored;    // for contiguous rows
  };
  Work make_work() const;
  size_t work_bytes() const;

  // Calls use(bytes, to, count, step) for all values of the block: `count` contiguous values at
  // `bytes` belong at to, to + step, ... of an array in which element (i0, i1, ...) of the block
  // has the index i0 * strides[0] + i1 * strides[1] + ... Throws DataError naming file, data set,
  // chunk and rows if they cannot be read, and what `use` throws.
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

// An LRU cache of blocks that are made as a whole and read in parts. Thread-safe. Only the
// constructor allocates.
class BlockCache {
 public:
  // Writes the bytes of a block. Called without a lock, by several threads for different blocks.
  using Fill = std::function<void(int64_t block, uint8_t* to)>;
  // Keeps up to `slots` blocks, in [1, blocks].
  BlockCache(int64_t blocks, size_t block_bytes, int64_t slots, Fill fill);

  // Copies bytes of a block. If it is not cached, fills it first, which evicts the least recently
  // used block; waits if another thread is filling it. Throws what fill throws; the block is then
  // not cached.
  void read(int64_t block, size_t offset, size_t count, uint8_t* to);

  static size_t host_bytes(int64_t blocks, size_t block_bytes, int64_t slots);

 private:
  struct Slot {
    int64_t block = -1;
    int32_t newer = -1, older = -1;  // neighbours in the order of use
    int32_t readers = 0;
    bool ready = false;  // false if block >= 0: being filled
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
