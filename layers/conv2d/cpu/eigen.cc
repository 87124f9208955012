// Convolutions by Eigen, as products of patches with filters (im2col), each product on one thread.
// Patches are packed a few hundred pixels and 1 KB of columns at a time, so that they stay in L2.
#include <algorithm>
#include <cstring>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/partial_sums.h"
#include "tessera/layers/shared/gemm_eigen_simd.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

// Returns the number of tasks: up to 32, two for each of 16 threads to balance the load. A task has
// at least 2^18 products, which one core computes in about 5 microseconds, the time to wake a
// thread.
int64_t eigen_tasks(const ConvShape& s) {
  return std::clamp<int64_t>(s.weights() * s.pixels() / (1 << 18), 1, 32);
}

// The rows of dx that a task of the input gradient computes: an image, or a band of an image with
// 24 pixels or more.
struct EigenBands {
  int64_t per_image, rows;

  explicit EigenBands(const ConvShape& s) {
    const int64_t most = std::clamp<int64_t>(s.h * s.w / 24, 1, std::max<int64_t>(1, s.h));
    per_image = std::clamp<int64_t>(ceil_div(eigen_tasks(s), std::max<int64_t>(1, s.n)), 1, most);
    rows = std::max<int64_t>(1, ceil_div(s.h, per_image));
    per_image = ceil_div(s.h, rows);
  }

  // Rows [row, row + rows) of an image, which are `count` elements of dx from `first` on.
  struct Band {
    int64_t image, row, rows, first, count;
  };
  Band band(const ConvShape& s, int64_t task) const {
    const int64_t image = task / per_image, row = task % per_image * rows;
    const int64_t own = std::min(rows, s.h - row);
    return {image, row, own, (image * s.h + row) * s.w * s.c, own * s.w * s.c};
  }
};

// Returns the number of runs of pixels that have their own partial sums in the gradient of the
// filters: more than 1 if `parts` is too few tasks. The sums take at most 8 MB, as they are written
// and read once more.
int64_t eigen_runs(const ConvShape& s, int64_t parts, int64_t blocks, DType dtype) {
  const int64_t bytes = std::max<int64_t>(1, s.weights() * bytes_of(dtype));
  const int64_t runs =
      std::min(ceil_div(eigen_tasks(s), std::max<int64_t>(1, parts)), (8 << 20) / bytes);
  return std::clamp<int64_t>(runs, 1, std::max<int64_t>(1, blocks));
}

// The matrix of a convolution's patches, never stored as a whole. Row p holds the elements that
// output pixel p, counted over all images, reads from one group of x: kh * kw * c / groups columns
// (u, v, k), ordered as in a filter, zero outside the image.
//
// Rows [first, first + count) and columns [begin, end) of a group's patches.
struct PatchPart {
  int64_t group, first, count, begin, end;
};

// Calls run(column, element, length), left to right, for each run of consecutive elements in
// columns [begin, end) of a filter row that are in the image. j is the output column; `element`
// counts from the start of the image's row.
template <class Run>
void for_runs(const ConvShape& s, int64_t group, int64_t j, int64_t begin, int64_t end, Run run) {
  const int64_t channels = s.c / s.groups, left = j * s.stride_w - s.pad_w;
  if (s.groups == 1 && s.dilation_w == 1) {  // the taps of a row are adjacent
    const int64_t shift = left * s.c;
    const int64_t first = std::max(begin, -shift), last = std::min(end, s.w * s.c - shift);
    if (first < last) run(first, first + shift, last - first);
    return;
  }
  for (int64_t column = begin; column < end;) {
    const int64_t v = column / channels, next = std::min((v + 1) * channels, end);
    const int64_t x = left + v * s.dilation_w;
    if (x >= 0 && x < s.w)
      run(column, x * s.c + group * channels + column % channels, next - column);
    column = next;
  }
}

// Calls visit(row of x, j, begin, end) for each pixel of the part and each filter row that its
// columns touch. The row is -1 if it is outside the image; begin and end count within the filter
// row.
template <class Visit>
void for_filter_rows(const ConvShape& s, const PatchPart& part, Visit visit) {
  const int64_t out_h = s.out_h(), out_w = s.out_w(), length = s.kw * (s.c / s.groups);
  int64_t j = part.first % out_w, i = part.first / out_w % out_h,
          image = part.first / out_w / out_h;
  for (int64_t p = 0; p < part.count; ++p) {
    for (int64_t u = part.begin / length; u * length < part.end; ++u) {
      const int64_t row = i * s.stride_h - s.pad_h + u * s.dilation_h;
      visit(row < 0 || row >= s.h ? -1 : image * s.h + row, j,
            std::max<int64_t>(0, part.begin - u * length), std::min(length, part.end - u * length));
    }
    if (++j < out_w) continue;
    j = 0;
    if (++i == out_h) i = 0, ++image;
  }
}

// Writes the part of x's patches to `to`, dense.
template <class T>
void pack_patches(const ConvShape& s, const PatchPart& part, const T* x, T* to) {
  for_filter_rows(s, part, [&](int64_t row, int64_t j, int64_t begin, int64_t end) {
    int64_t done = begin;
    auto zero_until = [&](int64_t column) {
      if (done < column) std::memset(to + done - begin, 0, (column - done) * sizeof(T));
    };
    if (row >= 0)
      for_runs(s, part.group, j, begin, end, [&](int64_t column, int64_t element, int64_t length) {
        zero_until(column);
        std::memcpy(to + column - begin, x + row * s.w * s.c + element, length * sizeof(T));
        done = column + length;
      });
    zero_until(end);
    to += end - begin;
  });
}

// Adds a part of the patches' gradient to dx, each element at its position in the image (col2im).
template <class T>
void add_patches(const ConvShape& s, const PatchPart& part, const T* from, T* dx) {
  for_filter_rows(s, part, [&](int64_t row, int64_t j, int64_t begin, int64_t end) {
    if (row >= 0)
      for_runs(s, part.group, j, begin, end, [&](int64_t column, int64_t element, int64_t length) {
        T* sum = dx + row * s.w * s.c + element;
        for (int64_t k = 0; k < length; ++k) sum[k] += from[column - begin + k];
      });
    from += end - begin;
  });
}

// Pixels of a product. More pixels mean that filters are packed less often, until the patches (1 KB
// a pixel) leave L2. No difference was measured between 256 and 512.
constexpr int64_t kBlockPixels = 256;
// Minimum pixels of a task: with fewer, packing the filters takes as long as using them.
constexpr int64_t kMinBlockPixels = 48;

template <class T>
constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));

// Returns the size of equal pieces of `count`, at most 1 KB each.
template <class T>
int64_t piece(int64_t count) {
  const int64_t most = 1024 / static_cast<int64_t>(sizeof(T));
  if (count <= most) return std::max<int64_t>(1, count);
  return round_up(ceil_div(count, ceil_div(count, most)), 8);
}

// A thread's scratch: a part of the patches or of their gradient, then Eigen's packed operands.
template <class T>
struct ThreadScratch {
  int64_t patches, packed;  // elements

  ThreadScratch(int64_t patches, int64_t m, int64_t n, int64_t k)
      : patches(round_up(patches, kLine<T>)),
        packed(round_up(EigenBlocks<T>(m, n, k).elements(), kLine<T>)) {}
  int64_t elements() const { return patches + packed; }
  T* of(void* scratch, int thread) const { return static_cast<T*>(scratch) + thread * elements(); }
};

// y = patches of x times filters; also dx = dy times filters if each pixel of dx depends on one
// pixel of dy.
template <class T>
class EigenForward final : public Convolution<T> {
 public:
  explicit EigenForward(const ConvRequest& request)
      : s_(request.shape),
        backward_(request.pass == ConvPass::input_grad),
        columns_(s_.kh * s_.kw * (s_.c / s_.groups)),
        pixels_(std::clamp<int64_t>(ceil_div(s_.pixels(), eigen_tasks(s_)), kMinBlockPixels,
                                    kBlockPixels)),
        depth_(s_.pointwise() ? (backward_ ? s_.o / s_.groups : columns_) : piece<T>(columns_)),
        own_(s_.pointwise() ? 0 : pixels_ * depth_, pixels_, (backward_ ? s_.c : s_.o) / s_.groups,
             depth_) {}

  size_t scratch(int threads) const override { return threads * own_.elements() * sizeof(T); }

  void run(ThreadPool& pool, const T* in, const T* filters, T* out, void* scratch,
           const ConvHooks<T>& hooks) const override {
    const int64_t channels = backward_ ? s_.c : s_.o;
    pool.parallel_for_thread(ceil_div(s_.pixels(), pixels_), [&](int64_t task, int thread) {
      const int64_t first = task * pixels_, count = std::min(pixels_, s_.pixels() - first);
      for (int64_t g = 0; g < s_.groups; ++g)
        multiply(g, first, count, in, filters, out, own_.of(scratch, thread));
      hooks.epilogue(out + first * channels, first * channels, count * channels);
    });
  }

 private:
  void multiply(int64_t g, int64_t first, int64_t count, const T* in, const T* filters, T* out,
                T* own) const {
    const int64_t from = backward_ ? s_.o : s_.c, to = backward_ ? s_.c : s_.o;
    EigenProduct<T> p{};
    p.m = count, p.n = to / s_.groups, p.packed = own + own_.patches;
    p.c = out + first * to + g * p.n, p.c_stride = to;
    p.b = filters + g * (s_.o / s_.groups) * columns_, p.b_stride = columns_;
    p.transpose_b = !backward_;
    if (s_.pointwise()) {
      p.k = from / s_.groups, p.a = in + first * from + g * p.k, p.a_stride = from;
      return eigen_microkernels<T>().product(p);
    }
    for (int64_t k = 0; k < columns_; k += depth_, p.b += depth_) {
      const PatchPart part{g, first, count, k, std::min(k + depth_, columns_)};
      pack_patches(s_, part, in, own);
      p.k = part.end - part.begin, p.a = own, p.a_stride = p.k;
      p.accumulate = k > 0;
      eigen_microkernels<T>().product(p);
    }
  }

  const ConvShape s_;
  const bool backward_;
  const int64_t columns_, pixels_, depth_;
  const ThreadScratch<T> own_;
};

// dx: dy times filters is the gradient of the patches, which is added to the pixels of the patches.
// A task owns a band of rows of dx and reads, for each filter row, the rows of dy that reach the
// band.
template <class T>
class EigenInputGrad final : public Convolution<T> {
 public:
  explicit EigenInputGrad(const ConvRequest& request)
      : s_(request.shape),
        bands_(s_),
        row_columns_(s_.kw * (s_.c / s_.groups)),
        columns_(piece<T>(row_columns_)),
        pixels_(std::clamp<int64_t>(bands_.rows * s_.out_w(), 1, kBlockPixels)),
        own_(pixels_ * columns_, pixels_, columns_, s_.o / s_.groups) {}

  size_t scratch(int threads) const override { return threads * own_.elements() * sizeof(T); }

  void run(ThreadPool& pool, const T* dy, const T* filters, T* dx, void* scratch,
           const ConvHooks<T>& hooks) const override {
    pool.parallel_for_thread(s_.n * bands_.per_image, [&](int64_t task, int thread) {
      const EigenBands::Band band = bands_.band(s_, task);
      std::memset(dx + band.first, 0, band.count * sizeof(T));
      for (int64_t g = 0; g < s_.groups; ++g)
        for (int64_t u = 0; u < s_.kh; ++u)
          add_filter_row(g, u, band, dy, filters, dx, own_.of(scratch, thread));
      hooks.epilogue(dx + band.first, band.first, band.count);
    });
  }

 private:
  void add_filter_row(int64_t g, int64_t u, const EigenBands::Band& band, const T* dy,
                      const T* filters, T* dx, T* own) const {
    const auto [image, row, rows, first, elements] = band;
    // Rows i of dy with row <= i * stride + shift < row + rows.
    const int64_t shift = u * s_.dilation_h - s_.pad_h, out_h = s_.out_h(), out_w = s_.out_w();
    const int64_t begin = row <= shift ? 0 : ceil_div(row - shift, s_.stride_h);
    const int64_t end =
        row + rows <= shift ? 0 : std::min(out_h, ceil_div(row + rows - shift, s_.stride_h));
    const int64_t channels = s_.o / s_.groups, filter = s_.kh * row_columns_;
    for (int64_t k = 0; k < row_columns_; k += columns_)
      for (int64_t i = begin * out_w; i < end * out_w; i += pixels_) {
        PatchPart part{g, image * out_h * out_w + i, std::min(pixels_, end * out_w - i), 0, 0};
        part.begin = u * row_columns_ + k;
        part.end = u * row_columns_ + std::min(k + columns_, row_columns_);
        EigenProduct<T> p{};
        p.m = part.count, p.n = part.end - part.begin, p.k = channels;
        p.a = dy + part.first * s_.o + g * channels, p.a_stride = s_.o;
        p.b = filters + g * channels * filter + part.begin, p.b_stride = filter;
        p.c = own, p.c_stride = p.n, p.packed = own + own_.patches;
        eigen_microkernels<T>().product(p);
        add_patches(s_, part, own, dx);
      }
  }

  const ConvShape s_;
  const EigenBands bands_;
  const int64_t row_columns_, columns_, pixels_;
  const ThreadScratch<T> own_;
};

// df = dy^T times patches of x. A task computes some columns of a group's filters over a run of the
// pixels.
template <class T>
class EigenWeightGrad final : public Convolution<T> {
 public:
  explicit EigenWeightGrad(const ConvRequest& request)
      : s_(request.shape),
        columns_(s_.kh * s_.kw * (s_.c / s_.groups)),
        width_(piece<T>(columns_)),
        slices_(ceil_div(columns_, width_)),
        pixels_(piece<T>(s_.pixels())),
        blocks_(ceil_div(s_.pixels(), pixels_)),
        runs_(eigen_runs(s_, slices_ * s_.groups, blocks_, request.dtype)),
        own_(s_.pointwise() ? 0 : pixels_ * width_, s_.o / s_.groups, width_, pixels_) {}

  size_t scratch(int threads) const override {
    return (partial_elements() + threads * own_.elements()) * sizeof(T);
  }

  void run(ThreadPool& pool, const T* x, const T* dy, T* df, void* scratch,
           const ConvHooks<T>&) const override {
    T* partial = static_cast<T*>(scratch);
    pool.parallel_for_thread(runs_ * slices_ * s_.groups, [&](int64_t task, int thread) {
      const int64_t run = task % runs_, part = task / runs_;
      add_run(run, part / slices_, part % slices_ * width_, x, dy,
              runs_ > 1 ? partial + run * s_.weights() : df,
              own_.of(partial + partial_elements(), thread));
    });
    if (runs_ > 1) reduce_partials(pool, runs_, s_.weights(), partial, df);
  }

 private:
  int64_t partial_elements() const {
    return runs_ > 1 ? round_up(runs_ * s_.weights(), kLine<T>) : 0;
  }

  void add_run(int64_t run, int64_t g, int64_t column, const T* x, const T* dy, T* sum,
               T* own) const {
    const int64_t channels = s_.o / s_.groups, end = std::min(column + width_, columns_);
    EigenProduct<T> p{};
    p.m = channels, p.n = end - column, p.packed = own + own_.patches;
    p.a_stride = s_.o, p.transpose_a = true;
    p.c = sum + g * channels * columns_ + column, p.c_stride = columns_;
    for (int64_t block = blocks_ * run / runs_; block < blocks_ * (run + 1) / runs_; ++block) {
      const int64_t first = block * pixels_;
      p.k = std::min(pixels_, s_.pixels() - first);
      p.a = dy + first * s_.o + g * channels;
      if (s_.pointwise()) {
        p.b = x + first * s_.c + g * columns_ + column, p.b_stride = s_.c;
      } else {
        pack_patches(s_, {g, first, p.k, column, end}, x, own);
        p.b = own, p.b_stride = p.n;
      }
      eigen_microkernels<T>().product(p);
      p.accumulate = true;
    }
    if (!p.accumulate) eigen_microkernels<T>().product(p);  // no pixels: zeros
  }

  const ConvShape s_;
  const int64_t columns_, width_, slices_, pixels_, blocks_, runs_;
  const ThreadScratch<T> own_;
};

// The output columns whose tap v is in the image.
struct TapColumns {
  int64_t begin, end;

  TapColumns(const ConvShape& s, int64_t v) {
    const int64_t shift = v * s.dilation_w - s.pad_w, out_w = s.out_w();
    begin = std::min(out_w, shift < 0 ? ceil_div(-shift, s.stride_w) : 0);
    end = shift >= s.w ? begin : std::clamp(ceil_div(s.w - shift, s.stride_w), begin, out_w);
  }
};

// Calls use(first element in x, first element in y, columns, tap) for each tap of output row
// `line`, counted over all images, that reads rows [row, row + rows) of x.
template <class Use>
void for_taps(const ConvShape& s, int64_t line, int64_t row, int64_t rows, Use use) {
  const int64_t image = line / s.out_h(), i = line % s.out_h();
  for (int64_t u = 0; u < s.kh; ++u) {
    const int64_t x_row = i * s.stride_h - s.pad_h + u * s.dilation_h;
    if (x_row < row || x_row >= row + rows) continue;
    for (int64_t v = 0; v < s.kw; ++v) {
      const TapColumns columns(s, v);
      if (columns.begin == columns.end) continue;
      const int64_t x_column = columns.begin * s.stride_w - s.pad_w + v * s.dilation_w;
      use(((image * s.h + x_row) * s.w + x_column) * s.c, (line * s.out_w() + columns.begin) * s.c,
          columns.end - columns.begin, u * s.kw + v);
    }
  }
}

// A depthwise convolution (groups == c == o) on Eigen's arrays: sums of products, channel by
// channel, for a row of pixels and a tap at a time. All three passes share one loop.
template <class T>
class EigenDepthwise final : public Convolution<T> {
 public:
  explicit EigenDepthwise(const ConvRequest& request)
      : pass_(request.pass),
        s_(request.shape),
        taps_(s_.kh * s_.kw),
        line_rows_(std::max<int64_t>(1, ceil_div(s_.n * s_.out_h(), eigen_tasks(s_)))),
        bands_(s_),
        runs_(eigen_runs(s_, 1, s_.n * s_.out_h(), request.dtype)) {}
  // Returns the bytes of the filters as [tap][channel], or of the partial sums of their gradient.
  size_t scratch(int) const override {
    return (pass_ == ConvPass::weight_grad ? runs_ : 1) * s_.weights() * sizeof(T);
  }

  void run(ThreadPool& pool, const T* a, const T* b, T* out, void* scratch,
           const ConvHooks<T>& hooks) const override {
    const int64_t lines = s_.n * s_.out_h(), weights = s_.weights();
    T* filters = static_cast<T*>(scratch);
    if (pass_ == ConvPass::weight_grad) {
      pool.parallel_for(runs_, [&](int64_t run) {
        T* const df = filters + run * weights;
        std::memset(df, 0, weights * sizeof(T));
        add_lines(lines * run / runs_, lines * (run + 1) / runs_, 0, s_.h, b, a, df);
      });
      return reduce_depthwise(pool, runs_, taps_, s_.c, filters, out);
    }
    for (int64_t t = 0; t < taps_; ++t)
      for (int64_t k = 0; k < s_.c; ++k) filters[t * s_.c + k] = b[k * taps_ + t];
    if (pass_ == ConvPass::forward) {
      pool.parallel_for(ceil_div(lines, line_rows_), [&](int64_t task) {
        const int64_t begin = task * line_rows_, end = std::min(lines, begin + line_rows_);
        const int64_t row = s_.out_w() * s_.c;
        for (int64_t line = begin; line < end; ++line) {
          std::memset(out + line * row, 0, row * sizeof(T));
          add_lines(line, line + 1, 0, s_.h, a, filters, out);
        }
        hooks.epilogue(out + begin * row, begin * row, (end - begin) * row);
      });
      return;
    }
    pool.parallel_for(s_.n * bands_.per_image, [&](int64_t task) {
      const auto [image, row, rows, first, count] = bands_.band(s_, task);
      std::memset(out + first, 0, count * sizeof(T));
      add_lines(image * s_.out_h(), (image + 1) * s_.out_h(), row, rows, a, filters, out);
      hooks.epilogue(out + first, first, count);
    });
  }

 private:
  // Adds the products of a and b for output rows [begin, end), counted over all images, that read
  // rows [row, row + rows) of x: of x and f to y, of dy and f to dx, or of dy and x to df.
  void add_lines(int64_t begin, int64_t end, int64_t row, int64_t rows, const T* a, const T* b,
                 T* out) const {
    for (int64_t line = begin; line < end; ++line)
      for_taps(s_, line, row, rows, [&](int64_t at_x, int64_t at_y, int64_t points, int64_t tap) {
        struct Pixels {
          int64_t first, step;
        };
        const Pixels x{at_x, s_.stride_w * s_.c}, y{at_y, s_.c}, f{tap * s_.c, 0};
        const Pixels of_a = pass_ == ConvPass::forward ? x : y;
        const Pixels of_b = pass_ == ConvPass::weight_grad ? x : f;
        const Pixels of_out = pass_ == ConvPass::forward      ? y
                              : pass_ == ConvPass::input_grad ? x
                                                              : f;
        eigen_microkernels<T>().multiply_add({points, s_.c, a + of_a.first, of_a.step,
                                              b + of_b.first, of_b.step, out + of_out.first,
                                              of_out.step});
      });
  }

  const ConvPass pass_;
  const ConvShape s_;
  const int64_t taps_, line_rows_;  // rows of y of a task, over all images
  const EigenBands bands_;
  const int64_t runs_;
};

std::unique_ptr<AnyConvolution> make_whole(const ConvRequest& r) {
  if (r.shape.depthwise()) return make_convolution<EigenDepthwise>(FloatTypes(), r.dtype, r);
  if (r.pass == ConvPass::weight_grad)
    return make_convolution<EigenWeightGrad>(FloatTypes(), r.dtype, r);
  if (r.pass == ConvPass::forward || r.shape.pointwise())
    return make_convolution<EigenForward>(FloatTypes(), r.dtype, r);
  return make_convolution<EigenInputGrad>(FloatTypes(), r.dtype, r);
}

// Keeps the whole result of another convolution in scratch, where only the epilogue reads it.
template <class T>
class InScratch final : public Convolution<T> {
 public:
  explicit InScratch(const ConvRequest& r)
      : whole_(make_whole(r)),
        elements_(r.pass == ConvPass::forward ? r.shape.pixels() * r.shape.o : r.shape.inputs()) {}
  size_t scratch(int threads) const override {
    ScratchLayout layout(nullptr);
    layout.take<T>(elements_);
    return layout.size() + whole_->scratch(threads);
  }
  void run(ThreadPool& pool, const T* a, const T* b, T*, void* scratch,
           const ConvHooks<T>& hooks) const override {
    ScratchLayout layout(scratch);
    T* const out = layout.take<T>(elements_);
    static_cast<const Convolution<T>&>(*whole_).run(pool, a, b, out, layout.rest(), hooks);
  }

 private:
  const std::unique_ptr<AnyConvolution> whole_;
  const int64_t elements_;
};

}  // namespace

const ConvAlgorithm ConvAlgorithm::eigen = {
    .name = "eigen",
    .applies = [](const ConvRequest&, const CpuSettings&) { return true; },
    .make =
        [](const ConvRequest& r, ConvVariant form) {
          return form.in_ranges ? make_convolution<InScratch>(FloatTypes(), r.dtype, r)
                                : make_whole(r);
        }};

}  // namespace tessera
