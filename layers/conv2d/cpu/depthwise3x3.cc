// Depthwise convolutions with 3x3 filters, stride 1 or 2 and no dilation. They are bound by memory,
// so nothing is copied: rows are read in place, each into L1 once for two rows of outputs.
#include <algorithm>
#include <cstring>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/depthwise_simd.h"
#include "tessera/layers/conv2d/cpu/geometry.h"
#include "tessera/layers/conv2d/cpu/partial_sums.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Output rows of a task and their input: half of the smallest known L2 (512 KB).
constexpr int64_t kTaskBytes = 256 << 10;
// Minimum tasks, enough for 16 threads; maximum partial sums, each of which is written and read.
constexpr int64_t kMinDepthwiseTasks = 16, kMaxSums = 64;
// Products that one core computes in about 5 microseconds, the time to wake a thread.
constexpr int64_t kDepthwiseTaskWork = 1 << 16;

// Rows of images in blocks; each block is `rows` rows of one image.
struct RowBlocks {
  RowBlocks(const ConvGeometry& g, DType dtype) : height(g.out_h) {
    // Bytes read and written for a row.
    const int64_t in = g.in_w * g.in_c * bytes_of(dtype) * g.in_step_h / g.out_step_h;
    const int64_t out = g.out_w * g.out_c * bytes_of(compute_type(dtype));
    const int64_t fit = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, in + out));
    const int64_t parts =
        std::max(ceil_div(height, fit), ceil_div(kMinDepthwiseTasks, g.n ? g.n : 1));
    rows = ceil_div(height, std::clamp<int64_t>(parts, 1, std::max<int64_t>(1, height)));
    rows = std::max<int64_t>(2, round_up(rows, 2));  // computed two at a time
    per_image = ceil_div(height, rows);
    count = g.n * per_image;
  }
  int64_t image(int64_t block) const { return block / per_image; }
  int64_t first(int64_t block) const { return block % per_image * rows; }
  int64_t last(int64_t block) const { return std::min(first(block) + rows, height); }

  int64_t height, rows, per_image, count;
};

template <class T>
struct DepthwiseScratch {
  Computed<T>* weights;  // the packed filters of a convolution, or the partial sums of a gradient
  Computed<T>* result;   // blocks of the result, if it is passed on in ranges
  size_t size;
};

// Lays out scratch at `scratch` with so many weights and elements of the result.
template <class T>
DepthwiseScratch<T> lay_out(int64_t weights, int64_t result, void* scratch) {
  ScratchLayout layout(scratch);
  DepthwiseScratch<T> all{};
  all.weights = layout.take<Computed<T>>(weights);
  all.result = layout.take<Computed<T>>(result);
  all.size = layout.size();
  return all;
}

// Returns `count` rows of an input image from row `first` on.
template <class T>
DepthwiseRows<T> rows_for(const ConvGeometry& g, const T* image, int64_t first, int64_t count) {
  DepthwiseRows<T> in{};
  for (int64_t y = 0; y < count; ++y)
    if (first + y >= 0 && first + y < g.in_h) in.rows[y] = image + (first + y) * g.in_w * g.in_c;
  in.width = g.in_w, in.channels = g.in_c, in.fetch_next = true;
  return in;
}

// The convolution, and its gradient with respect to x.
template <class T>
class Depthwise3x3 final : public Convolution<T> {
  using Sum = Computed<T>;

 public:
  Depthwise3x3(const ConvRequest& request, ConvVariant form)
      : g_(request.shape, request.pass == ConvPass::input_grad),
        blocks_(g_, request.dtype),
        form_(form) {}
  size_t scratch(int threads) const override { return take(nullptr, threads, nullptr).size; }
  int64_t packed_elements() const override { return g_.shape.weights(); }
  void pack(ThreadPool&, const T* filters, T* packed) const override {
    pack_depthwise(g_.shape, g_.phase(0), filters, packed);
  }

  void run(ThreadPool& pool, const T* in, const T* filters, Sum* out, void* scratch,
           const ConvHooks<T>& hooks) const override {
    if (g_.n * g_.out_h * g_.out_w * g_.out_c == 0) return;
    const Parts own = take(filters, pool.size(), scratch);
    if (!reads_packed()) {
      Sum* packed = own.weights;
      if (form_.packed) std::copy_n(filters, packed_elements(), packed);
      for (int64_t i = 0; i < g_.phases && !form_.packed; ++i)
        packed = pack_depthwise(g_.shape, g_.phase(i), filters, packed);
    }
    const int64_t row = g_.out_w * g_.out_c;
    pool.parallel_for_thread(blocks_.count, [&](int64_t block, int thread) {
      const int64_t image = blocks_.image(block);
      const int64_t first = blocks_.first(block), last = blocks_.last(block);
      const int64_t begin = (image * g_.out_h + first) * row;
      const T* from = in + image * g_.in_h * g_.in_w * g_.in_c;
      Sum* const to = form_.in_ranges ? own.result + thread * block_elements() : out + begin;
      for (int64_t i = first; i < last; i += 2) {
        const int64_t rows = std::min<int64_t>(2, last - i);
        Sum* const row_pair = to + (i - first) * row;
        if (g_.phases == 1) {
          const auto [v, h] = g_.phase(0);
          multiply(rows_for(g_, from, i * g_.in_step_h + v.base, (rows - 1) * g_.in_step_h + 3),
                   rows, own.filters, row_pair,
                   hooks.activation.from(0, begin + (i - first) * row));
        } else {
          for (int64_t r = 0; r < rows; ++r) run_row(from, i + r, row_pair + r * row, own);
        }
      }
      hooks.epilogue(to, begin, (last - first) * row);
    });
  }

  bool applies(const BiasActivation<T>& activation) const override {
    return activation.is_set() && depthwise<T>().activates && g_.phases == 1;
  }

  void run_rows(const ConvRows<T>& rows) const override {
    DepthwiseRows<T> from{};
    from.width = g_.in_w, from.channels = g_.in_c, from.fetch_next = rows.reads_memory;
    std::copy_n(rows.in, (rows.count - 1) * g_.in_step_h + 3, from.rows);
    multiply(from, rows.count, rows.wide_filters, rows.out, rows.activation);
  }

 private:
  struct Parts : DepthwiseScratch<T> {
    const Sum* filters;  // packed
  };

  // Returns true if the packed filters are read as they are.
  bool reads_packed() const { return form_.packed && std::is_same_v<T, Sum>; }

  Parts take(const T* filters, int threads, void* scratch) const {
    Parts own{
        lay_out<T>(reads_packed() ? 0 : packed_elements(), threads * block_elements(), scratch),
        {}};
    own.filters = own.weights;
    if constexpr (std::is_same_v<T, Sum>)
      if (form_.packed) own.filters = filters;
    return own;
  }

  // Computes one or two rows of outputs at `out`.
  void multiply(const DepthwiseRows<T>& in, int64_t rows, const Sum* filters, Sum* out,
                const BiasActivation<T>& activation) const {
    DepthwiseProducts<T> p{};
    p.in = in;
    p.in.base = g_.phase(0).h.base, p.in.columns = g_.out_w;
    p.f = filters, p.out_column = g_.out_c, p.after = activation;
    for (int64_t r = 0; r < rows; ++r) p.out[r] = out + r * g_.out_w * g_.out_c;
    depthwise<T>().products[g_.in_step_w - 1](p, static_cast<int>(rows));
  }

  // Computes one row of the input gradient with stride 2, in which even and odd columns use
  // different taps.
  void run_row(const T* image, int64_t i, Sum* out, const Parts& own) const {
    const Sum* packed = own.filters;
    for (int64_t phase = 0; phase < 4; ++phase) {
      const auto [v, h] = g_.phase(phase);
      if (v.first == i % 2 && h.count > 0) {
        DepthwiseProducts<T> p{};
        p.in = rows_for(g_, image, i / 2 + v.base, v.taps);
        p.in.base = h.base, p.in.columns = h.count;
        p.f = packed, p.out_column = 2 * g_.out_c;
        p.out[0] = out + h.first * g_.out_c;
        depthwise<T>().products_of_taps[v.taps - 1][h.taps - 1](p);
      }
      packed += v.taps * h.taps * g_.in_c;
    }
  }

  int64_t block_elements() const {
    return form_.in_ranges ? blocks_.rows * g_.out_w * g_.out_c : 0;
  }

  const ConvGeometry g_;
  const RowBlocks blocks_;
  const ConvVariant form_;
};

// The gradient with respect to the filters: partial sums of runs of blocks, reduced in order.
template <class T>
class Depthwise3x3WeightGrad final : public Convolution<T> {
 public:
  explicit Depthwise3x3WeightGrad(const ConvRequest& request)
      : g_(request.shape, false), blocks_(g_, request.dtype) {
    const int64_t wanted =
        std::clamp<int64_t>(g_.shape.pixels() * g_.shape.c / kDepthwiseTaskWork, 1, kMaxSums);
    runs_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, blocks_.count));
  }

  void run(ThreadPool& pool, const T* x, const T* dy, Computed<T>* df, void* scratch,
           const ConvHooks<T>&) const override {
    const int64_t weights = g_.shape.weights();
    const DepthwiseScratch<T> own = lay_out<T>(runs_ * weights, 0, scratch);
    pool.parallel_for(runs_, [&](int64_t run) {
      Computed<T>* sum = own.weights + run * weights;
      std::memset(sum, 0, weights * sizeof(*sum));
      for (int64_t b = blocks_.count * run / runs_; b < blocks_.count * (run + 1) / runs_; ++b)
        add_block(b, x, dy, sum);
    });
    reduce_depthwise(pool, runs_, 9, g_.shape.c, own.weights, df);
  }

  size_t scratch(int) const override {
    return lay_out<T>(runs_ * g_.shape.weights(), 0, nullptr).size;
  }

 private:
  void add_block(int64_t block, const T* x, const T* dy, Computed<T>* sum) const {
    const ConvShape& s = g_.shape;
    const int64_t image = blocks_.image(block), last = blocks_.last(block);
    const int64_t row = g_.out_w * s.c;
    for (int64_t i = blocks_.first(block); i < last; i += 2) {
      const int64_t rows = std::min<int64_t>(2, last - i);
      DepthwiseSums<T> p{};
      p.in = rows_for(g_, x + image * s.h * s.w * s.c, i * s.stride_h - s.pad_h,
                      (rows - 1) * s.stride_h + 3);
      p.in.base = -s.pad_w, p.in.columns = g_.out_w;
      for (int64_t r = 0; r < rows; ++r) p.dy[r] = dy + (image * g_.out_h + i + r) * row;
      p.sum = sum;
      depthwise<T>().sums[s.stride_w - 1](p, static_cast<int>(rows));
    }
  }

  const ConvGeometry g_;
  const RowBlocks blocks_;
  int64_t runs_;
};

}  // namespace

const ConvAlgorithm ConvAlgorithm::depthwise3x3 = {
    .name = "depthwise3x3",
    .applies =
        [](const ConvRequest& r, const CpuSettings&) {
          const ConvShape& s = r.shape;
          return s.depthwise() && s.kh == 3 && s.kw == 3 && s.dilation_h == 1 &&
                 s.dilation_w == 1 && s.stride_h == s.stride_w && s.stride_h <= 2;
        },
    .make =
        [](const ConvRequest& r, ConvVariant form) {
          return r.pass == ConvPass::weight_grad
                     ? make_convolution<Depthwise3x3WeightGrad>(ConvTypes(), r.dtype, r)
                     : make_convolution<Depthwise3x3>(ConvTypes(), r.dtype, r, form);
        },
    .packs_filters = [](const ConvRequest& r) { return r.pass == ConvPass::forward; },
    .computes_rows =
        [](const ConvRequest& r) { return r.pass == ConvPass::forward && is_single(r.dtype); },
    .takes_half = bfloat16_inputs};

}  // namespace tessera
