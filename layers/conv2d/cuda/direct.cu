// Direct convolutions on a GPU. Each thread computes one element of the output, or of a part of it.
// No two threads add to the same element, so there is no synchronization and the order of sums is
// fixed.
#include <algorithm>

#include "tessera/engine/half_cuda.h"
#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

constexpr int kBlocksPerMultiprocessor = 16;
constexpr int kBlocksAtOnce = 4;  // per multiprocessor: 64 registers for each thread

// Passed to the kernels by value. S is the type of the inputs, R that of the output.
template <class S, class R>
struct Direct {
  ConvShape s;
  int64_t out_h, out_w;
  int64_t group_c, group_o;  // channels and filters of a group
  int64_t parts;             // parts of the sums of the weight gradient
  int64_t total;             // elements that are computed
  const S *a, *b;
  R* out;
};

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// Returns y[n,i,j,q]: sums over the taps and the channels of q's group.
template <class S, class R>
__device__ auto output_pixel(const Direct<S, R>& d, int64_t at) {
  const ConvShape& s = d.s;
  const int64_t q = at % s.o, j = at / s.o % d.out_w, i = at / s.o / d.out_w % d.out_h;
  const int64_t n = at / s.o / d.out_w / d.out_h, first = q / d.group_o * d.group_c;
  const S* taps = d.b + q * s.kh * s.kw * d.group_c;
  Computed<S> sum = 0;
  for (int64_t u = 0; u < s.kh; ++u) {
    const int64_t row = i * s.stride_h - s.pad_h + u * s.dilation_h;
    if (row < 0 || row >= s.h) continue;
    for (int64_t v = 0; v < s.kw; ++v) {
      const int64_t column = j * s.stride_w - s.pad_w + v * s.dilation_w;
      if (column < 0 || column >= s.w) continue;
      const S* x = d.a + ((n * s.h + row) * s.w + column) * s.c + first;
      const S* w = taps + (u * s.kw + v) * d.group_c;
      for (int64_t k = 0; k < d.group_c; ++k)
        sum = multiply_add(to_float(x[k]), to_float(w[k]), sum);
    }
  }
  return sum;
}

// Returns the output coordinate that reads `at` through a tap; -1 if there is none.
__device__ inline int64_t consumer(int64_t at, int64_t pad, int64_t reach, int64_t stride,
                                   int64_t outputs) {
  const int64_t from = at + pad - reach;
  if (from < 0 || from % stride != 0) return -1;
  return from / stride < outputs ? from / stride : -1;
}

// Returns dx[n,row,column,k]: sums over the taps that read it and the filters of k's group.
template <class S, class R>
__device__ auto input_pixel(const Direct<S, R>& d, int64_t at) {
  const ConvShape& s = d.s;
  const int64_t channel = at % s.c, column = at / s.c % s.w, row = at / s.c / s.w % s.h;
  const int64_t n = at / s.c / s.w / s.h, group = channel / d.group_c, k = channel % d.group_c;
  const int64_t filter = s.kh * s.kw * d.group_c;
  Computed<S> sum = 0;
  for (int64_t u = 0; u < s.kh; ++u) {
    const int64_t i = consumer(row, s.pad_h, u * s.dilation_h, s.stride_h, d.out_h);
    if (i < 0) continue;
    for (int64_t v = 0; v < s.kw; ++v) {
      const int64_t j = consumer(column, s.pad_w, v * s.dilation_w, s.stride_w, d.out_w);
      if (j < 0) continue;
      const S* dy = d.a + ((n * d.out_h + i) * d.out_w + j) * s.o + group * d.group_o;
      const S* w = d.b + group * d.group_o * filter + (u * s.kw + v) * d.group_c + k;
      for (int64_t q = 0; q < d.group_o; ++q)
        sum = multiply_add(to_float(dy[q]), to_float(w[q * filter]), sum);
    }
  }
  return sum;
}

// Returns a part of df[q,u,v,k]: sums over some rows of dy, each a row of an image.
template <class S, class R>
__device__ auto weight_part(const Direct<S, R>& d, int64_t at) {
  const ConvShape& s = d.s;
  const int64_t weights = d.total / d.parts, part = at / weights, weight = at % weights;
  const int64_t k = weight % d.group_c, v = weight / d.group_c % s.kw;
  const int64_t u = weight / d.group_c / s.kw % s.kh, q = weight / d.group_c / s.kw / s.kh;
  const int64_t channel = q / d.group_o * d.group_c + k, rows = s.n * d.out_h;
  Computed<S> sum = 0;
  for (int64_t r = rows * part / d.parts; r < rows * (part + 1) / d.parts; ++r) {
    const int64_t row = r % d.out_h * s.stride_h - s.pad_h + u * s.dilation_h;
    if (row < 0 || row >= s.h) continue;
    const S* x = d.a + (r / d.out_h * s.h + row) * s.w * s.c + channel;
    const S* dy = d.b + r * d.out_w * s.o + q;
    for (int64_t j = 0; j < d.out_w; ++j) {
      const int64_t column = j * s.stride_w - s.pad_w + v * s.dilation_w;
      if (column >= 0 && column < s.w)
        sum = multiply_add(to_float(x[column * s.c]), to_float(dy[j * s.o]), sum);
    }
  }
  return sum;
}

template <class S, class R>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    conv_forward(const __grid_constant__ Direct<S, R> d) {
  for (int64_t i = first_index(); i < d.total; i += index_stride())
    d.out[i] = to_stored<R>(output_pixel(d, i));
}

template <class S, class R>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    conv_input_grad(const __grid_constant__ Direct<S, R> d) {
  for (int64_t i = first_index(); i < d.total; i += index_stride())
    d.out[i] = to_stored<R>(input_pixel(d, i));
}

template <class S, class R>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    conv_weight_parts(const __grid_constant__ Direct<S, R> d) {
  for (int64_t i = first_index(); i < d.total; i += index_stride()) d.out[i] = weight_part(d, i);
}

// Adds the parts of each weight pairwise, each pair half of the parts apart.
template <class T>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    conv_weight_sums(T* parts, int64_t count, int64_t weights, T* out) {
  for (int64_t i = first_index(); i < weights; i += index_stride()) {
    for (int64_t left = count; left > 1; left = (left + 1) / 2)
      for (int64_t p = 0; p < left / 2; ++p)
        parts[p * weights + i] += parts[(p + (left + 1) / 2) * weights + i];
    out[i] = parts[i];
  }
}

// Returns enough parts to fill a GPU, each of at least one row; from the shape alone.
int64_t parts_of(const ConvShape& s) {
  constexpr int64_t kWanted = int64_t{1} << 18, kMax = 256;
  const int64_t wanted = ceil_div(kWanted, std::max<int64_t>(s.weights(), 1));
  return std::clamp<int64_t>(wanted, 1, std::clamp<int64_t>(s.n * s.out_h(), 1, kMax));
}

template <class S, class R>
Direct<S, R> direct(const ConvShape& s, int64_t total, const void* a, const void* b, void* out) {
  return {.s = s,
          .out_h = s.out_h(),
          .out_w = s.out_w(),
          .group_c = s.c / s.groups,
          .group_o = s.o / s.groups,
          .parts = 1,
          .total = total,
          .a = static_cast<const S*>(a),
          .b = static_cast<const S*>(b),
          .out = static_cast<R*>(out)};
}

template <class S>
void run(const ConvRequest& request, CudaContext& ctx, const void* a, const void* b, void* out,
         void* scratch) {
  using T = Computed<S>;
  const ConvShape& s = request.shape;
  const int64_t most = int64_t{ctx.multiprocessors()} * kBlocksPerMultiprocessor;
  const auto issue = [&]<class D>(const char* name, void (*kernel)(D), const D& d) {
    if (d.total > 0)
      launch(name, kernel, grid_for(d.total, kThreads, most), dim3(kThreads), 0, ctx.cuda_stream(),
             d);
  };
  CudaDeviceGuard guard(ctx.index());
  if (request.pass == ConvPass::forward)
    return issue("conv2d", conv_forward<S, S>, direct<S, S>(s, s.pixels() * s.o, a, b, out));
  if (request.pass == ConvPass::input_grad)
    return issue("conv2d_input_grad", conv_input_grad<S, S>,
                 direct<S, S>(s, s.n * s.h * s.w * s.c, a, b, out));
  const int64_t parts = parts_of(s);
  Direct<S, T> d = direct<S, T>(s, s.weights() * parts, a, b, parts > 1 ? scratch : out);
  d.parts = parts;
  issue("conv2d_weight_grad", conv_weight_parts<S, T>, d);
  if (d.parts > 1 && s.weights() > 0)
    launch("conv2d_weight_grad sums", conv_weight_sums<T>, grid_for(s.weights(), kThreads, most),
           dim3(kThreads), 0, ctx.cuda_stream(), d.out, d.parts, s.weights(), static_cast<T*>(out));
}

}  // namespace

size_t direct_conv_scratch(const ConvRequest& request) {
  if (request.pass != ConvPass::weight_grad) return 0;
  const int64_t parts = parts_of(request.shape);
  return parts == 1
             ? 0
             : static_cast<size_t>(request.shape.weights() * parts) * size_of(request.result());
}

void direct_conv(const ConvRequest& request, CudaContext& ctx, const void* a, const void* b,
                 void* out, void* scratch) {
  visit_any_float(request.dtype, [&]<class S>(S) { run<S>(request, ctx, a, b, out, scratch); });
}

}  // namespace tessera
