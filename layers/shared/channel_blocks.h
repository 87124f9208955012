// What the norms share: for every channel, sums over the rows of x, in blocks. x [.., c] is read as
// rows of c channels; a block is `rows` rows one after the other (the last one may be shorter), cut
// by the shape and the kind of the device alone, so that a block's sums are the same wherever and
// by whom they are made. Blocks are merged in the order of their index. None of these has a
// gradient: the norms bring their own.
#pragma once

#include <algorithm>

#include "tessera/engine/op.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// Rows of x and how they are cut.
struct ChannelBlocks {
  int64_t rows = 0;        // of x
  int64_t block_rows = 1;  // of one block, >= 1
  TESSERA_HOST_DEVICE int64_t count() const { return (rows + block_rows - 1) / block_rows; }
  TESSERA_HOST_DEVICE int64_t begin(int64_t block) const { return block * block_rows; }
  TESSERA_HOST_DEVICE int64_t size(int64_t block) const {
    const int64_t left = rows - begin(block);
    return block_rows < left ? block_rows : left;
  }
  bool operator==(const ChannelBlocks&) const = default;
};

// The blocks of a norm over all rows. On the CPU 16384 elements of x or more in each, so that the
// block stays in the cache, and at least 64 rows, so that the results are small against x. On a GPU
// as many as fill a large one, but not more than 512, which are merged as fast.
ChannelBlocks channel_blocks(const TensorSpec& x);

// [blocks, 2, c]: the mean of each block, and the sum of squared deviations from that mean.
Tensor block_moments(const Tensor& x, ChannelBlocks blocks);

// [blocks, 2, c]: the sums of dy and of dy (x - mean) scale. mean and scale are [c], or [blocks, c]
// where every block has its own.
Tensor block_gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean,
                           const Tensor& scale, ChannelBlocks blocks);

// The sums over the blocks of [blocks, 2, c]: two tensors [c].
Tensors reduce_blocks(const Tensor& sums);

// --- the kernels (channel_blocks_cpu.cc), over raw memory ---

template <class T>
void block_moments(ThreadPool& pool, ChannelBlocks blocks, int64_t c, const T* x, T* moments);
// stats_stride: elements from one block's mean to the next, 0 or c
template <class T>
void block_gradient_sums(ThreadPool& pool, ChannelBlocks blocks, int64_t c, const T* dy, const T* x,
                         const T* mean, const T* scale, int64_t stats_stride, T* sums);
// The same for one block.
template <class T>
void moments_of_block(ChannelBlocks blocks, int64_t block, int64_t c, const T* x, T* moments);
template <class T>
void gradient_sums_of_block(ChannelBlocks blocks, int64_t block, int64_t c, const T* dy, const T* x,
                            const T* mean, const T* scale, int64_t stats_stride, T* sums);
// first [c] and second [c] are the sums of the two halves of each block.
template <class T>
void reduce_blocks(ThreadPool& pool, int64_t blocks, int64_t c, const T* sums, T* first, T* second);

}  // namespace tessera
