#include "dnn_conv.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace cuda_double {
namespace {

template <class Do>
void with_type(int64_t type, void* data, Do&& act) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return act(static_cast<double*>(data));
    case CUDNN_DATA_HALF:
      return act(static_cast<__half*>(data));
    case CUDNN_DATA_BFLOAT16:
      return act(static_cast<__nv_bfloat16*>(data));
    default:
      return act(static_cast<float*>(data));
  }
}

double number(double value) { return value; }
double number(float value) { return static_cast<double>(value); }
double number(__half value) { return static_cast<double>(__half2float(value)); }
double number(__nv_bfloat16 value) { return static_cast<double>(__bfloat162float(value)); }
void put(double& to, double value) { to = value; }
void put(float& to, double value) { to = static_cast<float>(value); }
void put(__half& to, double value) { to = __float2half(static_cast<float>(value)); }
void put(__nv_bfloat16& to, double value) { to = __float2bfloat16(static_cast<float>(value)); }

// Visits the elements as [first axis][height][width][second axis], whatever their layout.
template <class T, class Do>
void each(const ConvTensor& about, T* data, Do&& act) {
  size_t k = 0;
  for (int64_t n = 0; n < about.dims[0]; ++n)
    for (int64_t h = 0; h < about.dims[2]; ++h)
      for (int64_t w = 0; w < about.dims[3]; ++w)
        for (int64_t c = 0; c < about.dims[1]; ++c)
          act(data[n * about.strides[0] + c * about.strides[1] + h * about.strides[2] +
                   w * about.strides[3]],
              k++);
}

template <class Sum>
std::vector<Sum> read(const ConvTensor& about, void* data) {
  std::vector<Sum> values(static_cast<size_t>(about.elements()));
  with_type(about.type, data, [&](auto* typed) {
    each(about, typed,
         [&](auto& element, size_t k) { values[k] = static_cast<Sum>(number(element)); });
  });
  return values;
}

template <class Sum>
void write(const ConvTensor& about, void* data, const std::vector<Sum>& values, double alpha,
           double beta) {
  with_type(about.type, data, [&](auto* typed) {
    each(about, typed, [&](auto& element, size_t k) {
      const double scaled = alpha * static_cast<double>(values[k]);
      put(element, beta == 0 ? scaled : scaled + beta * number(element));
    });
  });
}

// Calls act(output, filter, input) for each output pixel and each filter tap that meets an input
// pixel; the arguments are pixel indices, without channels.
template <class Do>
void meetings(const Conv& conv, int64_t first, Do&& act) {
  const int64_t height = conv.x.dims[2], width = conv.x.dims[3], out_height = conv.y.dims[2],
                out_width = conv.y.dims[3], rows = conv.w.dims[2], columns = conv.w.dims[3],
                taps = rows * columns;
  for (int64_t n = 0; n < conv.y.dims[0]; ++n)
    for (int64_t i = 0; i < out_height; ++i)
      for (int64_t j = 0; j < out_width; ++j)
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t tap = (t + first) % taps, r = tap / columns, s = tap % columns;
          const int64_t h = i * conv.stride[0] - conv.before[0] + r * conv.dilation[0];
          const int64_t w = j * conv.stride[1] - conv.before[1] + s * conv.dilation[1];
          if (h < 0 || h >= height || w < 0 || w >= width) continue;
          act((n * out_height + i) * out_width + j, conv.flipped ? taps - 1 - tap : tap,
              (n * height + h) * width + w);
        }
}

// Arrays whose last axis is channels.
template <class Sum>
struct Arrays {
  std::vector<Sum> x, w, y;
};

template <class Sum>
void multiply(const Conv& conv, Arrays<Sum>& a, int64_t first) {
  const int64_t groups = conv.groups(), in = conv.w.dims[1], out = conv.w.dims[0] / groups,
                taps = conv.w.dims[2] * conv.w.dims[3];
  const auto filter = [&](int64_t o, int64_t tap) { return a.w.data() + (o * taps + tap) * in; };
  meetings(conv, first, [&](int64_t place, int64_t tap, int64_t input) {
    for (int64_t g = 0; g < groups; ++g) {
      Sum* const x = a.x.data() + (input * groups + g) * in;
      Sum* const y = a.y.data() + (place * groups + g) * out;
      for (int64_t o = 0; o < out; ++o) {
        Sum* const w = filter(g * out + o, tap);
        if (conv.pass == ConvPass::forward) {
          Sum sum = 0;
          for (int64_t c = 0; c < in; ++c) sum += x[c] * w[c];
          y[o] += sum;
        } else if (conv.pass == ConvPass::input) {
          for (int64_t c = 0; c < in; ++c) x[c] += y[o] * w[c];
        } else {
          for (int64_t c = 0; c < in; ++c) w[c] += y[o] * x[c];
        }
      }
    }
  });
}

template <class Sum>
void run(const Conv& conv, void* x, void* w, void* y, int64_t first) {
  const auto zeros = [](const ConvTensor& about) {
    return std::vector<Sum>(static_cast<size_t>(about.elements()));
  };
  Arrays<Sum> arrays{conv.pass == ConvPass::input ? zeros(conv.x) : read<Sum>(conv.x, x),
                     conv.pass == ConvPass::filter ? zeros(conv.w) : read<Sum>(conv.w, w),
                     conv.pass == ConvPass::forward ? zeros(conv.y) : read<Sum>(conv.y, y)};
  multiply(conv, arrays, first);
  if (conv.pass == ConvPass::forward) write(conv.y, y, arrays.y, conv.alpha, conv.beta);
  if (conv.pass == ConvPass::input) write(conv.x, x, arrays.x, conv.alpha, conv.beta);
  if (conv.pass == ConvPass::filter) write(conv.w, w, arrays.w, conv.alpha, conv.beta);
}

}  // namespace

bool known_type(int64_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
         type == CUDNN_DATA_BFLOAT16;
}

bool Conv::fits() const {
  const int64_t parts = groups();
  if (x.dims[0] != y.dims[0] || w.dims[0] != y.dims[1] || w.dims[1] * parts != x.dims[1] ||
      parts < 1 || w.dims[0] % parts != 0)
    return false;
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t reach = dilation[axis] * (w.dims[axis + 2] - 1) + 1;
    const int64_t padded = x.dims[axis + 2] + before[axis] + behind[axis];
    if (padded < reach || y.dims[axis + 2] != (padded - reach) / stride[axis] + 1) return false;
  }
  return true;
}

void run_conv(const Conv& conv, void* x, void* w, void* y) { run<double>(conv, x, w, y, 0); }

void run_conv_in_any_order(const Conv& conv, void* x, void* w, void* y, int64_t first) {
  run<float>(conv, x, w, y, first);
}

}  // namespace cuda_double
