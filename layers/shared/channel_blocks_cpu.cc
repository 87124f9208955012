#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/layers/shared/channel_reduce_simd.h"

namespace tessera {
namespace {

template <class T>
const ChannelMicrokernelsOf<T>& block_microkernels() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(channel_microkernels));
}

// Channels of one task. Tensors with many channels have few blocks, so the channels are split as
// well.
constexpr int64_t kChannels = kMomentChannels;

int64_t parts_of(int64_t c) { return (c + kChannels - 1) / kChannels; }

// Calls fn(block, first channel, channels) for all parts of the result.
template <class F>
void for_each_part(ThreadPool& pool, int64_t blocks, int64_t c, F&& fn) {
  const int64_t parts = parts_of(c);
  pool.parallel_for(blocks * parts, [&](int64_t task) {
    const int64_t first = task % parts * kChannels;
    fn(task / parts, first, std::min(kChannels, c - first));
  });
}
// Calls fn for the parts of one block.
template <class F>
void for_each_part_of(int64_t block, int64_t c, F&& fn) {
  for (int64_t first = 0; first < c; first += kChannels)
    fn(block, first, std::min(kChannels, c - first));
}

template <class T>
auto moments_of_part(ChannelBlocks blocks, int64_t c, const T* x, T* moments) {
  return [=](int64_t block, int64_t first, int64_t channels) {
    T* mean = moments + block * 2 * c + first;
    block_microkernels<T>().moments(x + blocks.begin(block) * c + first, blocks.size(block), c,
                                    channels, mean, mean + c);
  };
}

template <class T>
auto gradient_sums_of_part(ChannelBlocks blocks, int64_t c, const T* dy, const T* x, const T* mean,
                           const T* scale, int64_t stats_stride, T* sums) {
  return [=](int64_t block, int64_t first, int64_t channels) {
    const int64_t at = blocks.begin(block) * c + first, stats = block * stats_stride + first;
    T* to = sums + block * 2 * c + first;
    block_microkernels<T>().gradient_sums(dy + at, x + at, mean + stats, scale + stats,
                                          blocks.size(block), c, channels, to, to + c);
  };
}

}  // namespace

template <class T>
void block_moments(ThreadPool& pool, ChannelBlocks blocks, int64_t c, const T* x, T* moments) {
  for_each_part(pool, blocks.count(), c, moments_of_part(blocks, c, x, moments));
}

template <class T>
void moments_of_block(ChannelBlocks blocks, int64_t block, int64_t c, const T* x, T* moments) {
  for_each_part_of(block, c, moments_of_part(blocks, c, x, moments));
}

template <class T>
void block_gradient_sums(ThreadPool& pool, ChannelBlocks blocks, int64_t c, const T* dy, const T* x,
                         const T* mean, const T* scale, int64_t stats_stride, T* sums) {
  for_each_part(pool, blocks.count(), c,
                gradient_sums_of_part(blocks, c, dy, x, mean, scale, stats_stride, sums));
}

template <class T>
void gradient_sums_of_block(ChannelBlocks blocks, int64_t block, int64_t c, const T* dy, const T* x,
                            const T* mean, const T* scale, int64_t stats_stride, T* sums) {
  for_each_part_of(block, c,
                   gradient_sums_of_part(blocks, c, dy, x, mean, scale, stats_stride, sums));
}

template <class T>
void reduce_blocks(ThreadPool& pool, int64_t blocks, int64_t c, const T* sums, T* first,
                   T* second) {
  for_each_part(pool, 1, c, [&](int64_t, int64_t begin, int64_t channels) {
    block_microkernels<T>().sum(sums + begin, blocks, 2 * c, channels, first + begin);
    block_microkernels<T>().sum(sums + c + begin, blocks, 2 * c, channels, second + begin);
  });
}

#define TESSERA_CHANNEL_BLOCKS(T)                                                            \
  template void block_moments(ThreadPool&, ChannelBlocks, int64_t, const T*, T*);            \
  template void block_gradient_sums(ThreadPool&, ChannelBlocks, int64_t, const T*, const T*, \
                                    const T*, const T*, int64_t, T*);                        \
  template void moments_of_block(ChannelBlocks, int64_t, int64_t, const T*, T*);             \
  template void gradient_sums_of_block(ChannelBlocks, int64_t, int64_t, const T*, const T*,  \
                                       const T*, const T*, int64_t, T*);                     \
  template void reduce_blocks(ThreadPool&, int64_t, int64_t, const T*, T*, T*);
TESSERA_CHANNEL_BLOCKS(float)
TESSERA_CHANNEL_BLOCKS(double)
#undef TESSERA_CHANNEL_BLOCKS

}  // namespace tessera
