#include "tessera/layers/conv2d/cpu/lanes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/lanes_tiling.h"
#include "tessera/layers/conv2d/cpu/partial_sums.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

struct LanesPhase : ConvPhase {
  int64_t filters;  // start of its filters
};

// The convolution and its gradient with respect to x, which gathers from dy.
template <class T>
class Lanes final : public Convolution<T> {
 public:
  Lanes(const ConvRequest& request, VectorAxis vector_axis, bool in_ranges)
      : g_(request.shape, request.pass == ConvPass::input_grad),
        tiling_(g_, vector_axis, request.dtype),
        in_c_(g_.in_c / g_.shape.groups),
        out_c_(g_.out_c / g_.shape.groups),
        in_ranges_(in_ranges) {
    int64_t filters = 0;
    for (int64_t i = 0; i < g_.phases; ++i) {
      phases_.push_back({g_.phase(i), filters});
      filters += phases_.back().taps() * in_c_ * g_.out_c;
    }
  }

  size_t scratch(int threads) const override { return lay_out(threads, nullptr).size; }

  void run(ThreadPool& pool, const T* in, const T* filters, T* out, void* scratch,
           const ConvHooks<T>& hooks) const override {
    if (g_.n * g_.out_h * g_.out_w * g_.out_c == 0) return;
    const Scratch all = lay_out(pool.size(), scratch);
    for (const LanesPhase& p : phases_) pack_phase(p, filters, all.filters + p.filters);
    pool.parallel_for_thread(tiling_.tasks, [&](int64_t task, int thread) {
      Scratch own = all;
      own.block += thread * tiling_.block_elements();
      own.row += thread * tiling_.output_row(g_), own.result += thread * result_rows();
      run_task(tiling_.task(g_, task), in, out, own, hooks.epilogue);
    });
  }

 private:
  struct Scratch {
    T* filters;  // each phase: [group][tap row][tap][input channel][output channel]
    T* block;    // per thread: input of a task
    T* row;      // per thread: a row of outputs in vectors
    T* result;   // per thread: a row of each image's outputs, if the result is passed on in ranges
    size_t size;
  };

  Scratch lay_out(int threads, void* scratch) const {
    ScratchLayout layout(scratch);
    Scratch b{};
    b.filters = layout.take<T>(g_.shape.weights());
    b.block = layout.take<T>(threads * tiling_.block_elements());
    b.row = layout.take<T>(threads * tiling_.output_row(g_));
    b.result = layout.take<T>(threads * result_rows());
    b.size = layout.size();
    return b;
  }

  void pack_phase(const LanesPhase& p, const T* filters, T* packed) const {
    const ConvShape& s = g_.shape;
    const int64_t c = s.c / s.groups, filter = s.kh * s.kw * c;
    const int64_t k_step = g_.backward ? filter : 1, q_step = g_.backward ? 1 : filter;
    for (int64_t group = 0; group < s.groups; ++group)
      for (int64_t t = 0; t < p.taps(); ++t) {
        const T* from = filters + group * (s.o / s.groups) * filter + p.filter_tap(t, s.kw) * c;
        for (int64_t k = 0; k < in_c_; ++k, from += k_step)
          for (int64_t q = 0; q < out_c_; ++q) *packed++ = from[q * q_step];
      }
  }

  // Computes row i of the output.
  void run_row(const LanesTask& task, int64_t i, const Scratch& own) const {
    const int64_t lanes = tiling_.lanes, q = i / g_.out_step_h;
    LanesRow<T> row{};
    row.x_next = tiling_.next_vector, row.x_channel = tiling_.channel;
    row.y_next = g_.out_step_w * g_.out_c * lanes;
    row.depth = in_c_, row.outputs = out_c_;
    row.width = g_.in_w;
    for (int64_t h = 0; h < g_.out_step_w; ++h) {
      const LanesPhase& p = phases_[i % g_.out_step_h * g_.out_step_w + h];
      const int64_t start = q * g_.in_step_h + p.v.base;  // the first tap's row
      const ConvAxis::Taps tap_rows = p.v.inside(start, g_.in_h);
      row.first_tap_row = tap_rows.first, row.last_tap_row = tap_rows.last;
      row.x_row = p.v.spacing * tiling_.row, row.x_tap = p.h.spacing * tiling_.column;
      row.taps = p.h.taps, row.vectors = tiling_.vectors;
      if (tiling_.vector_axis == VectorAxis::batch) {
        row.step = g_.in_step_w, row.spacing = p.h.spacing, row.base = p.h.base;
        row.vectors = p.h.count;
      }
      const int64_t first = (start - task.first_row) * tiling_.row;
      const int64_t filters = p.taps() * in_c_ * out_c_;
      for (int64_t group = 0; group < g_.shape.groups; ++group) {
        row.x = own.block + first + (p.h.base - g_.base_w) * tiling_.column +
                group * in_c_ * tiling_.channel;
        row.f = own.filters + p.filters + group * filters;
        row.y = own.row + (p.h.first * g_.out_c + group * out_c_) * lanes;
        lanes_kernels<T>().row(row);
      }
    }
  }

  void run_task(const LanesTask& task, const T* in, T* out, const Scratch& own,
                const Epilogue<T>& epilogue) const {
    fill_block(g_, tiling_, task, in, own.block);
    const int64_t row = g_.out_w * g_.out_c;
    const int64_t first = task.first * g_.out_step_h;
    const int64_t last = std::min(task.last * g_.out_step_h, g_.out_h);
    const int64_t image = g_.out_h * row, begin = (task.image * g_.out_h + first) * row;
    for (int64_t i = first; i < last; ++i) {
      const int64_t at = begin + (i - first) * row;
      run_row(task, i, own);
      if (!in_ranges_) {
        store_outputs(g_, tiling_, task, 1, own.row, out + at, image);
        continue;
      }
      store_outputs(g_, tiling_, task, 1, own.row, own.result, row);
      for (int64_t k = 0; k < task.images; ++k) epilogue(own.result + k * row, at + k * image, row);
    }
    for (int64_t k = 0; k < task.images && !in_ranges_; ++k)
      epilogue(out + begin + k * image, begin + k * image, (last - first) * row);
  }

  // Returns the elements of a row of each image.
  int64_t result_rows() const { return in_ranges_ ? tiling_.images * g_.out_w * g_.out_c : 0; }

  const ConvGeometry g_;
  const LanesTiling tiling_;
  const int64_t in_c_, out_c_;  // channels of a group
  const bool in_ranges_;
  std::vector<LanesPhase> phases_;
};

// Rows of dy that are added to all sums before the next rows are read: next to x in L2.
constexpr int64_t kDyRowBytes = 96 << 10;

// The gradient with respect to the filters. A task sums over its rows in vectors, then adds up
// their lanes; the sums of all tasks are reduced in order.
template <class T>
class LanesWeightGrad final : public Convolution<T> {
 public:
  LanesWeightGrad(const ConvShape& shape, VectorAxis vector_axis)
      : g_(shape, false), tiling_(g_, vector_axis, dtype_of<T>) {
    for (int64_t v = 0; v < shape.kw; ++v)
      for (int64_t k = 0; k < shape.c / shape.groups; ++k)
        offsets_.push_back(v * shape.dilation_w * tiling_.column + k * tiling_.channel);
    const int64_t row = std::max<int64_t>(1, dy_row()) * static_cast<int64_t>(sizeof(T));
    dy_rows_ = std::clamp<int64_t>(kDyRowBytes / row, 1, tiling_.rows);
  }

  size_t scratch(int threads) const override { return lay_out(threads, nullptr).size; }

  void run(ThreadPool& pool, const T* x, const T* dy, T* df, void* scratch,
           const ConvHooks<T>&) const override {
    const LanesMicrokernelsOf<T>& kernels = lanes_kernels<T>();
    const Scratch all = lay_out(pool.size(), scratch);
    const int64_t weights = g_.shape.weights();
    if (tiling_.tasks * g_.rows.count * g_.out_w * g_.out_c == 0) {  // no pixels: nothing to sum
      std::memset(df, 0, weights * sizeof(T));
      return;
    }
    pool.parallel_for_thread(tiling_.tasks, [&](int64_t index, int thread) {
      const LanesTask task = tiling_.task(g_, index);
      Scratch own = all;
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

 private:
  struct Scratch {
    T* partial;  // [task][weights]
    T* block;    // per thread: x of a task
    T* dy;       // per thread: some rows of dy in vectors
    T* sum;      // per thread: [weights][lane]
    size_t size;
  };

  Scratch lay_out(int threads, void* scratch) const {
    ScratchLayout layout(scratch);
    Scratch b{};
    b.partial = layout.take<T>(tiling_.tasks * g_.shape.weights());
    b.block = layout.take<T>(threads * tiling_.block_elements());
    b.dy = layout.take<T>(threads * dy_rows_ * dy_row());
    b.sum = layout.take<T>(threads * g_.shape.weights() * tiling_.lanes);
    b.size = layout.size();
    return b;
  }

  // Adds rows [first, last) of the outputs, whose dy is in own.dy. Skips tap rows outside the
  // image.
  void add_rows(const LanesTask& task, int64_t first, int64_t last, const Scratch& own) const {
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

  // Adds to row u of all filters, in tiles of taps by filters of nearly equal size.
  void add_tap_row(const LanesOuter<T>& lines, int64_t u, const Scratch& own) const {
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

  int64_t dy_row() const { return tiling_.output_row(g_); }

  const ConvGeometry g_;
  const LanesTiling tiling_;
  std::vector<int64_t> offsets_;  // taps of a filter row, channel by channel
  int64_t dy_rows_;
};

template <VectorAxis kAxis>
constexpr ConvAlgorithm lanes_of(std::string_view name) {
  return {
      .name = name,
      .applies = [](const ConvRequest& r,
                    const CpuSettings&) { return vector_axis_for(r) == kAxis; },
      .make =
          [](const ConvRequest& r, ConvVariant form) {
            return r.pass == ConvPass::weight_grad
                       ? make_convolution<LanesWeightGrad>(FloatTypes(), r.dtype, r.shape, kAxis)
                       : make_convolution<Lanes>(FloatTypes(), r.dtype, r, kAxis, form.in_ranges);
          },
      .absorbs_prologue = forward_is_direct};
}

}  // namespace

const ConvAlgorithm ConvAlgorithm::image_lanes = lanes_of<VectorAxis::batch>("image_lanes");
const ConvAlgorithm ConvAlgorithm::column_lanes = lanes_of<VectorAxis::width>("column_lanes");

}  // namespace tessera
