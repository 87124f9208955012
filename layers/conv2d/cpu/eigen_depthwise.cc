
#include <algorithm>
#include <cstring>

#include "tessera/layers/conv2d/cpu/eigen_tiling.h"
#include "tessera/layers/conv2d/cpu/partial_sums.h"
#include "tessera/layers/shared/gemm_eigen_simd.h"

namespace tessera {
namespace {

// The output columns whose tap v is in the image.
struct Columns {
  int64_t begin, end;

  Columns(const ConvShape& s, int64_t v) {
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
      const Columns columns(s, v);
      if (columns.begin == columns.end) continue;
      const int64_t x_column = columns.begin * s.stride_w - s.pad_w + v * s.dilation_w;
      use(((image * s.h + x_row) * s.w + x_column) * s.c, (line * s.out_w() + columns.begin) * s.c,
          columns.end - columns.begin, u * s.kw + v);
    }
  }
}

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
           const ConvHooks<T>& hooks) const override;

 private:
  void forward(int64_t begin, int64_t end, const T* x, const T* f, T* y) const;
  void input_grad(int64_t image, int64_t row, int64_t rows, const T* dy, const T* f, T* dx) const;
  void weight_grad(int64_t begin, int64_t end, const T* x, const T* dy, T* df) const;

  const ConvPass pass_;
  const ConvShape s_;
  const int64_t taps_, line_rows_;  // rows of y of a task, over all images
  const EigenBands bands_;
  const int64_t runs_;
};

template <class T>
void EigenDepthwise<T>::forward(int64_t begin, int64_t end, const T* x, const T* f, T* y) const {
  const int64_t row = s_.out_w() * s_.c;
  for (int64_t line = begin; line < end; ++line) {
    std::memset(y + line * row, 0, row * sizeof(T));
    for_taps(s_, line, 0, s_.h, [&](int64_t at_x, int64_t at_y, int64_t points, int64_t tap) {
      eigen_microkernels<T>().multiply_add(
          {points, s_.c, x + at_x, s_.stride_w * s_.c, f + tap * s_.c, 0, y + at_y, s_.c});
    });
  }
}

template <class T>
void EigenDepthwise<T>::input_grad(int64_t image, int64_t row, int64_t rows, const T* dy,
                                   const T* f, T* dx) const {
  std::memset(dx + (image * s_.h + row) * s_.w * s_.c, 0, rows * s_.w * s_.c * sizeof(T));
  for (int64_t line = image * s_.out_h(); line < (image + 1) * s_.out_h(); ++line)
    for_taps(s_, line, row, rows, [&](int64_t at_x, int64_t at_y, int64_t points, int64_t tap) {
      eigen_microkernels<T>().multiply_add(
          {points, s_.c, dy + at_y, s_.c, f + tap * s_.c, 0, dx + at_x, s_.stride_w * s_.c});
    });
}

template <class T>
void EigenDepthwise<T>::weight_grad(int64_t begin, int64_t end, const T* x, const T* dy,
                                    T* df) const {
  std::memset(df, 0, s_.weights() * sizeof(T));
  for (int64_t line = begin; line < end; ++line)
    for_taps(s_, line, 0, s_.h, [&](int64_t at_x, int64_t at_y, int64_t points, int64_t tap) {
      eigen_microkernels<T>().multiply_add(
          {points, s_.c, dy + at_y, s_.c, x + at_x, s_.stride_w * s_.c, df + tap * s_.c, 0});
    });
}

template <class T>
void EigenDepthwise<T>::run(ThreadPool& pool, const T* a, const T* b, T* out, void* scratch,
                            const ConvHooks<T>& hooks) const {
  const Epilogue<T>& epilogue = hooks.epilogue;
  const int64_t lines = s_.n * s_.out_h();
  T* filters = static_cast<T*>(scratch);
  if (pass_ == ConvPass::weight_grad) {
    pool.parallel_for(runs_, [&](int64_t run) {
      weight_grad(lines * run / runs_, lines * (run + 1) / runs_, a, b,
                  filters + run * s_.weights());
    });
    return reduce_depthwise(pool, runs_, taps_, s_.c, filters, out);
  }
  for (int64_t t = 0; t < taps_; ++t)
    for (int64_t k = 0; k < s_.c; ++k) filters[t * s_.c + k] = b[k * taps_ + t];
  if (pass_ == ConvPass::forward) {
    pool.parallel_for(ceil_div(lines, line_rows_), [&](int64_t task) {
      const int64_t begin = task * line_rows_, end = std::min(lines, begin + line_rows_);
      forward(begin, end, a, filters, out);
      const int64_t row = s_.out_w() * s_.c, first = begin * row;
      if (epilogue.apply) epilogue.apply(epilogue.context, out + first, first, (end - begin) * row);
    });
    return;
  }
  pool.parallel_for(s_.n * bands_.per_image, [&](int64_t task) {
    const int64_t image = task / bands_.per_image, row = task % bands_.per_image * bands_.rows;
    const int64_t rows = std::min(bands_.rows, s_.h - row);
    input_grad(image, row, rows, a, filters, out);
    const int64_t first = (image * s_.h + row) * s_.w * s_.c;
    if (epilogue.apply) epilogue.apply(epilogue.context, out + first, first, rows * s_.w * s_.c);
  });
}

}  // namespace

std::unique_ptr<AnyConvolution> make_eigen_depthwise(const ConvRequest& request) {
  return make_convolution<EigenDepthwise>(FloatTypes(), request.dtype, request);
}

}  // namespace tessera
