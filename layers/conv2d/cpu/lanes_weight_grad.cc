// The gradient with respect to the filters with lanes across images or columns. A task sums over
// its rows in vectors, then adds up their lanes; the sums of all tasks are reduced in order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tessera/layers/conv2d/cpu/lanes.h"
#include "tessera/layers/conv2d/cpu/lanes_tiling.h"
#include "tessera/layers/conv2d/cpu/partial_sums.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

// Rows of dy that are added to all sums before the next rows are read: next to x in L2.
constexpr int64_t kDyBytes = 96 << 10;

template <class T>
struct LanesWeightGradBuffers {
  T* partial;  // [task][weights]
  T* block;    // per thread: x of a task
  T* dy;       // per thread: some rows of dy in vectors
  T* sum;      // per thread: [weights][lane]
  size_t size;
};

template <class T>
class LanesWeightGrad final : public Convolution<T> {
 public:
  LanesWeightGrad(const ConvShape& shape, VectorAxis vector_axis);
  size_t scratch(int threads) const override { return lay_out(threads, nullptr).size; }
  void run(ThreadPool& pool, const T* x, const T* dy, T* df, void* scratch,
           const ConvHooks<T>&) const override;
  LanesWeightGradBuffers<T> lay_out(int threads, void* scratch) const;

 private:
  void add_rows(const LanesTask& task, int64_t first, int64_t last,
                const LanesWeightGradBuffers<T>& own) const;
  void add_tap_row(const LanesOuter<T>& lines, int64_t u,
                   const LanesWeightGradBuffers<T>& own) const;

  int64_t dy_row() const { return tiling_.output_row(g_); }

  const ConvGeometry g_;
  const LanesTiling tiling_;
  std::vector<int64_t> offsets_;  // taps of a filter row, channel by channel
  int64_t dy_rows_;
};

template <class T>
LanesWeightGrad<T>::LanesWeightGrad(const ConvShape& shape, VectorAxis vector_axis)
    : g_(shape, false), tiling_(g_, vector_axis, dtype_of<T>) {
  for (int64_t v = 0; v < shape.kw; ++v)
    for (int64_t k = 0; k < shape.c / shape.groups; ++k)
      offsets_.push_back(v * shape.dilation_w * tiling_.column + k * tiling_.channel);
  const int64_t row = std::max<int64_t>(1, dy_row()) * static_cast<int64_t>(sizeof(T));
  dy_rows_ = std::clamp<int64_t>(kDyBytes / row, 1, tiling_.rows);
}

template <class T>
LanesWeightGradBuffers<T> LanesWeightGrad<T>::lay_out(int threads, void* scratch) const {
  ScratchLayout layout(scratch);
  LanesWeightGradBuffers<T> b{};
  b.partial = layout.take<T>(tiling_.tasks * g_.shape.weights());
  b.block = layout.take<T>(threads * tiling_.block_elements());
  b.dy = layout.take<T>(threads * dy_rows_ * dy_row());
  b.sum = layout.take<T>(threads * g_.shape.weights() * tiling_.lanes);
  b.size = layout.size();
  return b;
}

// Adds to row u of all filters, in tiles of taps by filters of nearly equal size.
template <class T>
void LanesWeightGrad<T>::add_tap_row(const LanesOuter<T>& lines, int64_t u,
                                     const LanesWeightGradBuffers<T>& own) const {
  const LanesMicrokernelsOf<T>& kernels = lanes_kernels<T>();
  const ConvShape& s = g_.shape;
  const int64_t taps = std::ssize(offsets_), filters = s.o / s.groups, lanes = tiling_.lanes;
  const int64_t tap_parts = (taps + kernels.max_taps - 1) / kernels.max_taps;
  const int64_t filter_parts = (filters + kernels.max_filters - 1) / kernels.max_filters;
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t i = 0; i < tap_parts; ++i)
      for (int64_t j = 0; j < filter_parts; ++j) {
        LanesOuter<T> tile = lines;
        const int64_t tap = taps * i / tap_parts, filter = filters * j / filter_parts;
        tile.taps = static_cast<int>(taps * (i + 1) / tap_parts - tap);
        tile.filters = static_cast<int>(filters * (j + 1) / filter_parts - filter);
        tile.offsets = offsets_.data() + tap;
        tile.x += group * (s.c / s.groups) * tiling_.channel;
        tile.dy += (group * filters + filter) * lanes;
        tile.sum_filter = s.kh * taps * lanes;
        tile.sum =
            own.sum + (group * filters + filter) * tile.sum_filter + (u * taps + tap) * lanes;
        kernels.outer(tile);
      }
}

// Adds rows [first, last) of the outputs, whose dy is in own.dy. Skips tap rows outside the image.
template <class T>
void LanesWeightGrad<T>::add_rows(const LanesTask& task, int64_t first, int64_t last,
                                  const LanesWeightGradBuffers<T>& own) const {
  const ConvShape& s = g_.shape;
  const int64_t row = tiling_.row;
  for (int64_t u = 0; u < s.kh; ++u) {
    int64_t begin = first, end = last;
    const int64_t shift = u * s.dilation_h - s.pad_h;  // input row = output row * stride + shift
    while (begin < end && begin * s.stride_h + shift < 0) ++begin;
    while (begin < end && (end - 1) * s.stride_h + shift >= s.h) --end;
    if (begin == end) continue;
    LanesOuter<T> lines{};
    lines.lines = end - begin, lines.vectors = tiling_.vectors;
    lines.x = own.block + (begin * s.stride_h + shift - task.first_row) * row;
    lines.x += (-s.pad_w - g_.base_w) * tiling_.column;
    lines.x_line = s.stride_h * row, lines.x_next = tiling_.next_vector;
    lines.dy = own.dy + (begin - first) * dy_row();
    lines.dy_line = dy_row(), lines.dy_next = s.o * tiling_.lanes;
    add_tap_row(lines, u, own);
  }
}

template <class T>
void LanesWeightGrad<T>::run(ThreadPool& pool, const T* x, const T* dy, T* df, void* scratch,
                             const ConvHooks<T>&) const {
  const LanesMicrokernelsOf<T>& kernels = lanes_kernels<T>();
  const LanesWeightGradBuffers<T> all = lay_out(pool.size(), scratch);
  const int64_t weights = g_.shape.weights();
  if (tiling_.tasks * g_.rows.count * g_.out_w * g_.out_c == 0) {  // no pixels: nothing to sum
    std::memset(df, 0, weights * sizeof(T));
    return;
  }
  pool.parallel_for_thread(tiling_.tasks, [&](int64_t index, int thread) {
    const LanesTask task = tiling_.task(g_, index);
    LanesWeightGradBuffers<T> own = all;
    own.block += thread * tiling_.block_elements();
    own.dy += thread * dy_rows_ * dy_row(), own.sum += thread * weights * tiling_.lanes;
    fill_block(g_, tiling_, task, x, own.block);
    std::memset(own.sum, 0, weights * tiling_.lanes * sizeof(T));
    for (int64_t first = task.first; first < task.last; first += dy_rows_) {
      const int64_t last = std::min(first + dy_rows_, task.last);
      const int64_t row = g_.out_w * g_.out_c;
      load_outputs(g_, tiling_, task, last - first, dy + (task.image * g_.out_h + first) * row,
                   g_.out_h * row, own.dy);
      add_rows(task, first, last, own);
    }
    kernels.reduce(own.sum, weights, all.partial + index * weights);
  });
  reduce_partials(pool, tiling_.tasks, weights, all.partial, df);
}

}  // namespace

std::unique_ptr<AnyConvolution> make_lanes_weight_grad(const ConvRequest& request,
                                                       VectorAxis lanes) {
  return make_convolution<LanesWeightGrad>(FloatTypes(), request.dtype, request.shape, lanes);
}

}  // namespace tessera
