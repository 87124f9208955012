#include "tessera/engine/pointwise_run.h"
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

// Calls fn(block, first channel, channels) for all parts of the result, of at most `most` channels.
template <class F>
void for_each_part(ThreadPool& pool, int64_t blocks, int64_t c, int64_t most, F&& fn) {
  const int64_t parts = (c + most - 1) / most;
  pool.parallel_for(blocks * parts, [&](int64_t task) {
    const int64_t first = task % parts * most;
    fn(task / parts, first, std::min(most, c - first));
  });
}
// Calls fn for the parts of one block.
template <class F>
void for_each_part_of(int64_t block, int64_t c, int64_t most, F&& fn) {
  for (int64_t first = 0; first < c; first += most) fn(block, first, std::min(most, c - first));
}

// The channels of a part: rows of 16 bits are converted on the stack.
template <class T>
int64_t channels_of_part(ChannelBlocks blocks, std::initializer_list<StoredRows<T>> read) {
  for (const StoredRows<T>& x : read)
    if (is_half(x.dtype))
      return std::clamp<int64_t>(kMaxHalfRows / blocks.block_rows, 1, kChannels);
  return kChannels;
}

// The rows of one part as numbers of type T.
template <class T>
class PartRows {
 public:
  PartRows(const StoredRows<T>& x, int64_t at, int64_t rows, int64_t c, int64_t channels)
      : first_(static_cast<const T*>(x.data) + at), stride_(c) {
    if constexpr (std::is_same_v<T, float>)
      if (is_half(x.dtype)) widen(x, at, rows, channels);
  }
  const T* first() const { return first_; }
  int64_t stride() const { return stride_; }

 private:
  void widen(const StoredRows<T>& x, int64_t at, int64_t rows, int64_t channels) {
    const int64_t runs = channels == stride_ ? 1 : rows, length = rows * channels / runs;
    for (int64_t r = 0; r < runs; ++r)
      widen_half(x.dtype, x.data, at + r * stride_, length, wide_ + r * length);
    first_ = wide_, stride_ = channels;
  }

  const T* first_;
  int64_t stride_;
  alignas(64) T wide_[kMaxHalfRows];
};

template <class T>
auto moments_of_part(ChannelBlocks blocks, int64_t c, StoredRows<T> x, T* moments) {
  return [=](int64_t block, int64_t first, int64_t channels) {
    T* mean = moments + block * 2 * c + first;
    const int64_t rows = blocks.size(block);
    const PartRows<T> part(x, blocks.begin(block) * c + first, rows, c, channels);
    block_microkernels<T>().moments(part.first(), rows, part.stride(), channels, mean, mean + c);
  };
}

template <class T>
auto gradient_sums_of_part(ChannelBlocks blocks, int64_t c, StoredRows<T> dy, StoredRows<T> x,
                           const T* mean, const T* scale, int64_t stats_stride, T* sums) {
  return [=](int64_t block, int64_t first, int64_t channels) {
    const int64_t at = blocks.begin(block) * c + first, stats = block * stats_stride + first;
    const int64_t rows = blocks.size(block);
    const PartRows<T> g(dy, at, rows, c, channels), v(x, at, rows, c, channels);
    T* to = sums + block * 2 * c + first;
    block_microkernels<T>().gradient_sums(g.first(), v.first(), mean + stats, scale + stats, rows,
                                          g.stride(), v.stride(), channels, to, to + c);
  };
}

}  // namespace

template <class T>
void block_moments(ThreadPool& pool, ChannelBlocks blocks, int64_t c, StoredRows<T> x, T* moments) {
  for_each_part(pool, blocks.count(), c, channels_of_part(blocks, {x}),
                moments_of_part(blocks, c, x, moments));
}

template <class T>
void moments_of_block(ChannelBlocks blocks, int64_t block, int64_t c, StoredRows<T> x, T* moments) {
  for_each_part_of(block, c, channels_of_part(blocks, {x}), moments_of_part(blocks, c, x, moments));
}

template <class T>
void block_gradient_sums(ThreadPool& pool, ChannelBlocks blocks, int64_t c, StoredRows<T> dy,
                         StoredRows<T> x, const T* mean, const T* scale, int64_t stats_stride,
                         T* sums) {
  for_each_part(pool, blocks.count(), c, channels_of_part(blocks, {dy, x}),
                gradient_sums_of_part(blocks, c, dy, x, mean, scale, stats_stride, sums));
}

template <class T>
void gradient_sums_of_block(ChannelBlocks blocks, int64_t block, int64_t c, StoredRows<T> dy,
                            StoredRows<T> x, const T* mean, const T* scale, int64_t stats_stride,
                            T* sums) {
  for_each_part_of(block, c, channels_of_part(blocks, {dy, x}),
                   gradient_sums_of_part(blocks, c, dy, x, mean, scale, stats_stride, sums));
}

template <class T>
void reduce_blocks(ThreadPool& pool, int64_t blocks, int64_t c, const T* sums, T* first,
                   T* second) {
  for_each_part(pool, 1, c, kChannels, [&](int64_t, int64_t begin, int64_t channels) {
    block_microkernels<T>().sum(sums + begin, blocks, 2 * c, channels, first + begin);
    block_microkernels<T>().sum(sums + c + begin, blocks, 2 * c, channels, second + begin);
  });
}

#define TESSERA_CHANNEL_BLOCKS(T)                                                       \
  template void block_moments(ThreadPool&, ChannelBlocks, int64_t, StoredRows<T>, T*);  \
  template void block_gradient_sums(ThreadPool&, ChannelBlocks, int64_t, StoredRows<T>, \
                                    StoredRows<T>, const T*, const T*, int64_t, T*);    \
  template void moments_of_block(ChannelBlocks, int64_t, int64_t, StoredRows<T>, T*);   \
  template void gradient_sums_of_block(ChannelBlocks, int64_t, int64_t, StoredRows<T>,  \
                                       StoredRows<T>, const T*, const T*, int64_t, T*); \
  template void reduce_blocks(ThreadPool&, int64_t, int64_t, const T*, T*, T*);
TESSERA_CHANNEL_BLOCKS(float)
TESSERA_CHANNEL_BLOCKS(double)
#undef TESSERA_CHANNEL_BLOCKS

}  // namespace tessera
