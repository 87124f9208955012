#include "tessera/tools/bench/by_hand_simd.h"

namespace tessera {
namespace {

template <class F>
void each(int64_t rows, int64_t c, float* __restrict out, F f) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < c; ++j) out[r * c + j] = f(r * c + j, j);
}

void bias(const float* const* in, int64_t rows, int64_t c, float* out) {
  const float *x = in[0], *b = in[1];
  each(rows, c, out, [=](int64_t i, int64_t j) { return x[i] + b[j]; });
}

void batch_norm_relu(const float* const* in, int64_t rows, int64_t c, float* out) {
  const float *x = in[0], *mean = in[1], *scale = in[2], *gamma = in[3], *beta = in[4];
  each(rows, c, out, [=](int64_t i, int64_t j) {
    const float y = (x[i] - mean[j]) * scale[j] * gamma[j] + beta[j];
    return y <= 0 ? 0 : y;
  });
}

void batch_norm_add_relu(const float* const* in, int64_t rows, int64_t c, float* out) {
  const float *x = in[0], *mean = in[1], *scale = in[2], *gamma = in[3], *beta = in[4];
  const float* more = in[5];
  each(rows, c, out, [=](int64_t i, int64_t j) {
    const float y = (x[i] - mean[j]) * scale[j] * gamma[j] + beta[j] + more[i];
    return y <= 0 ? 0 : y;
  });
}

void batch_norm_input_grad(const float* const* in, int64_t rows, int64_t c, float* out) {
  const float *dy = in[0], *x = in[1], *mean = in[2], *slope = in[3], *rest = in[4], *scale = in[5];
  each(rows, c, out, [=](int64_t i, int64_t j) {
    return (dy[i] - (x[i] - mean[j]) * slope[j] - rest[j]) * scale[j];
  });
}

void relu_grad(const float* const* in, int64_t rows, int64_t c, float* out) {
  const float *y = in[0], *dy = in[1];
  each(1, rows * c, out, [=](int64_t i, int64_t) { return y[i] > 0 ? dy[i] : 0; });
}

void scale(const float* x, const float* factor, int64_t rows, int64_t c, float* __restrict out) {
  for (int64_t r = 0; r < rows; ++r) {
    const float by = factor[r];
    for (int64_t j = 0; j < c; ++j) out[r * c + j] = x[r * c + j] * by;
  }
}

void copy(const float* x, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i];
}

// Reads x with 128 independent sums, so that the order of summation does not limit the speed.
float sum(const float* x, int64_t n) {
  constexpr int kSums = 128;
  float sums[kSums] = {}, all = 0;
  for (int64_t i = 0; i + kSums <= n; i += kSums)
    for (int j = 0; j < kSums; ++j) sums[j] += x[i + j];
  for (const float s : sums) all += s;
  return all;
}

}  // namespace

namespace TESSERA_ISA {
extern const ByHand by_hand;
const ByHand by_hand = {
    bias, batch_norm_relu, batch_norm_add_relu, batch_norm_input_grad, relu_grad, scale, copy, sum};
}  // namespace TESSERA_ISA

}  // namespace tessera
