// Blocked sums over the rows of x, for every channel, shared by the norms. x [.., c] is read as
// rows of c channels; a block is `rows` adjacent rows (the last block may be shorter). The cut
// depends only on the shape and the kind of device, so a block has the same sums whichever kernel
// or thread computes them. Blocks are merged in order of index. These ops have no gradient: the
// norms define their own.
#pragma once

#include <algorithm>

#include "tessera/engine/op.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// The rows of x and their division into blocks.
struct ChannelBlocks {
  int64_t rows = 0;        // rows of x
  int64_t block_rows = 1;  // rows of a block, >= 1
  TESSERA_HOST_DEVICE int64_t count() const { return (rows + block_rows - 1) / block_rows; }
  TESSERA_HOST_DEVICE int64_t begin(int64_t block) const { return block * block_rows; }
  TESSERA_HOST_DEVICE int64_t size(int64_t block) const {
    const int64_t left = rows - begin(block);
    return block_rows < left ? block_rows : left;
  }
  bool operator==(const ChannelBlocks&) const = default;
};

// Returns the blocks of a norm over all rows. On the CPU a block has at least 16384 elements of x,
// so that it stays in the cache, and at least 64 rows, so that the results are small compared with
// x. On a GPU there are enough blocks to fill a large one, but at most 512, which are merged as
// fast.
ChannelBlocks channel_blocks(const TensorSpec& x);

// [blocks, 2, c]: the mean of each block, and the sum of squared deviations from that mean.
Tensor block_moments(const Tensor& x, ChannelBlocks blocks);

// [blocks, 2, c]: the sums of dy and of dy (x - mean) scale. mean and scale are [c], or [blocks, c]
// if each block has its own.
Tensor block_gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean,
                           const Tensor& scale, ChannelBlocks blocks);

// Sums [blocks, 2, c] over the blocks: two tensors [c].
Tensors reduce_blocks(const Tensor& sums);

// An op whose output has a part for each block of rows of its inputs, such as these sums. Such a
// reduction can be fused into the producer of its first input: the kernel that writes the input
// also reduces its rows while they are in the cache.
class BlockwiseOp {
 public:
  // Returns the blocks of the rows of input 0.
  virtual const ChannelBlocks& blocks() const = 0;
  // Computes, on the CPU, the parts of all outputs for one block from the block's rows.
  // Thread-safe.
  virtual void run_block(int64_t block, Buffers in, const Buffer& out) const = 0;

 protected:
  ~BlockwiseOp() = default;
};

// Runs an op block by block while its input 0 is written. The thread that writes the last rows of a
// block also reduces that block. Every thread reduces in the same order, so the result does not
// depend on the thread.
class BlocksAsWritten {
 public:
  static int64_t counters(const BlockwiseOp& op) { return op.blocks().count(); }

  // `counters` has an element for each block; the constructor clears them.
  BlocksAsWritten(const BlockwiseOp& op, Buffers in, const Buffer& out, int32_t* counters);
  // Reports that rows [first, first + rows) have been written, once for each row. Thread-safe.
  void written(int64_t first, int64_t rows) const;

 private:
  const BlockwiseOp& op_;
  const Buffers in_;
  const Buffer out_;
  int32_t* const counters_;  // written rows of each block
};

// --- the kernels (channel_blocks_cpu.cc), on raw memory ---

// Elements of type T, or of 16 bits, which are converted part by part; then T is float, and blocks
// have at most kMaxHalfRows rows.
template <class T>
struct StoredRows {
  StoredRows(const T* data) : data(data), dtype(dtype_of<T>) {}
  StoredRows(const Buffer& buffer) : data(buffer.data), dtype(buffer.spec.dtype) {}
  const void* data;
  DType dtype;
};
inline constexpr int64_t kMaxHalfRows = 16384;

// The blocks to compute: all on a pool, or one on the calling thread.
struct BlocksToCompute {
  BlocksToCompute(ThreadPool& pool) : pool(&pool) {}
  explicit BlocksToCompute(int64_t block) : block(block) {}
  ThreadPool* pool = nullptr;
  int64_t block = 0;
};

template <class T>
void block_moments(const BlocksToCompute& which, ChannelBlocks blocks, int64_t c, StoredRows<T> x,
                   T* moments);
// stats_stride: elements from one block's mean to the next, 0 or c
template <class T>
void block_gradient_sums(const BlocksToCompute& which, ChannelBlocks blocks, int64_t c,
                         StoredRows<T> dy, StoredRows<T> x, const T* mean, const T* scale,
                         int64_t stats_stride, T* sums);
// first [c] and second [c] are the sums of the two halves of each block.
template <class T>
void reduce_blocks(ThreadPool& pool, int64_t blocks, int64_t c, const T* sums, T* first, T* second);

}  // namespace tessera
