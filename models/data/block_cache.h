// Blocks of a data set that are made as a whole and read in parts: those used last are kept.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera {

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
