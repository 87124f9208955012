#include "tessera/engine/half_numbers.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/layers/shared/channel_reduce_simd.h"

namespace tessera {
namespace {

// Calls fn(block, first channel, channels) for all parts of the result, of at most `most` channels:
// tensors with many channels have few blocks.
template <class F>
void for_each_part(const BlocksToCompute& which, int64_t blocks, int64_t c, int64_t most, F&& fn) {
  const int64_t parts = (c + most - 1) / most;
  const auto compute = [&](int64_t block, int64_t part) {
    fn(block, part * most, std::min(most, c - part * most));
  };
  if (which.pool != nullptr)
    return which.pool->parallel_for(blocks * parts,
                                    [&](int64_t task) { compute(task / parts, task % parts); });
  for (int64_t part = 0; part < parts; ++part) compute(which.block, part);
}

// The channels of a part: rows of 16 bits are converted on the stack, if not both are bfloat16.
template <class T>
int64_t channels_of_part(ChannelBlocks blocks, std::initializer_list<StoredRows<T>> read) {
  for (const StoredRows<T>& x : read)
    if (is_half(x.dtype))
      return std::clamp<int64_t>(kMaxHalfRows / blocks.block_rows, 1, kMomentChannels);
  return kMomentChannels;
}

// Returns the rows if they are bfloat16, which kernels read as they are, or null.
const bfloat16* bfloat16_rows(const StoredRows<float>& x) {
  return x.dtype == DType::bf16 ? static_cast<const bfloat16*>(x.data) : nullptr;
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

}  // namespace

template <class T>
void block_moments(const BlocksToCompute& which, ChannelBlocks blocks, int64_t c, StoredRows<T> x,
                   T* moments) {
  const auto compute = [=]<class S>(const S* from, int64_t stride, int64_t block, int64_t first,
                                    int64_t channels) {
    T* mean = moments + block * 2 * c + first;
    channel_microkernels_of<S>().moments(from, blocks.size(block), stride, channels, mean,
                                         mean + c);
  };
  const auto at = [=](int64_t block, int64_t first) { return blocks.begin(block) * c + first; };
  if constexpr (std::is_same_v<T, float>)
    if (const auto* from = bfloat16_rows(x))
      return for_each_part(which, blocks.count(), c, kMomentChannels,
                           [=](int64_t block, int64_t first, int64_t channels) {
                             compute(from + at(block, first), c, block, first, channels);
                           });
  for_each_part(which, blocks.count(), c, channels_of_part(blocks, {x}),
                [=](int64_t block, int64_t first, int64_t channels) {
                  const PartRows<T> part(x, at(block, first), blocks.size(block), c, channels);
                  compute(part.first(), part.stride(), block, first, channels);
                });
}

template <class T>
void block_gradient_sums(const BlocksToCompute& which, ChannelBlocks blocks, int64_t c,
                         StoredRows<T> dy, StoredRows<T> x, const T* mean, const T* scale,
                         int64_t stats_stride, T* sums) {
  const auto compute = [=]<class S>(const S* g, int64_t g_stride, const S* v, int64_t v_stride,
                                    int64_t block, int64_t first, int64_t channels) {
    const int64_t stats = block * stats_stride + first;
    T* to = sums + block * 2 * c + first;
    channel_microkernels_of<S>().gradient_sums(g, v, mean + stats, scale + stats,
                                               blocks.size(block), g_stride, v_stride, channels, to,
                                               to + c);
  };
  const auto at = [=](int64_t block, int64_t first) { return blocks.begin(block) * c + first; };
  if constexpr (std::is_same_v<T, float>)
    if (const auto* g = bfloat16_rows(dy), *v = bfloat16_rows(x); g && v)
      return for_each_part(which, blocks.count(), c, kMomentChannels,
                           [=](int64_t block, int64_t first, int64_t channels) {
                             const int64_t i = at(block, first);
                             compute(g + i, c, v + i, c, block, first, channels);
                           });
  for_each_part(which, blocks.count(), c, channels_of_part(blocks, {dy, x}),
                [=](int64_t block, int64_t first, int64_t channels) {
                  const int64_t i = at(block, first), rows = blocks.size(block);
                  const PartRows<T> g(dy, i, rows, c, channels), v(x, i, rows, c, channels);
                  compute(g.first(), g.stride(), v.first(), v.stride(), block, first, channels);
                });
}

template <class T>
void reduce_blocks(ThreadPool& pool, int64_t blocks, int64_t c, const T* sums, T* first,
                   T* second) {
  for_each_part(pool, 1, c, kMomentChannels, [&](int64_t, int64_t begin, int64_t channels) {
    channel_microkernels_of<T>().sum(sums + begin, blocks, 2 * c, channels, first + begin);
    channel_microkernels_of<T>().sum(sums + c + begin, blocks, 2 * c, channels, second + begin);
  });
}

#define TESSERA_CHANNEL_BLOCKS(T)                                                                  \
  template void block_moments(const BlocksToCompute&, ChannelBlocks, int64_t, StoredRows<T>, T*);  \
  template void block_gradient_sums(const BlocksToCompute&, ChannelBlocks, int64_t, StoredRows<T>, \
                                    StoredRows<T>, const T*, const T*, int64_t, T*);               \
  template void reduce_blocks(ThreadPool&, int64_t, int64_t, const T*, T*, T*);
TESSERA_CHANNEL_BLOCKS(float)
TESSERA_CHANNEL_BLOCKS(double)
#undef TESSERA_CHANNEL_BLOCKS

}  // namespace tessera
