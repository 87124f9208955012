// The CUDA kernels of ops and optimizers, on device memory; defined only in builds with CUDA. They
// compute the same as the CPU kernels. T, and the dtype of a Buffer unless stated otherwise, is
// float or double. S is the type of elements in memory: T, or of 16 bits if T is float.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/layers/shared/pool_windows.h"
#include "tessera/runtime/random.h"

namespace tessera {

// Norms.

// moments [blocks, 2, c] -> mean, 1 / std, unbiased variance: [c] each
void batch_norm_finalise_cuda(CudaContext& ctx, ChannelBlocks blocks, double eps,
                              const Buffer& moments, Buffers out);
// in: mean and variance, old and of the batch; out = (1 - momentum) old + momentum batch, each [c].
// If a value of the batch is not finite, nothing is written and the update counts as skipped.
void batch_norm_update_cuda(CudaContext& ctx, double momentum, Buffers in, Buffers out);
// in: the sums of dy and dy xhat over blocks of `rows` rows in total, gamma, 1 / std. out: dgamma,
// dbeta, and scale, slope and offset of dx = (dy - (x - mean) slope - offset) scale.
void batch_norm_grad_finalise_cuda(CudaContext& ctx, int64_t rows, Buffers in, Buffers out);

struct NormGroups {
  int64_t groups;
  int64_t pixels;  // pixels of a sample
  double eps;
  bool operator==(const NormGroups&) const = default;
};

// moments [n, 2, c] of each channel -> mean, 1 / std of its group: [n, c] each
void group_norm_finalise_cuda(CudaContext& ctx, const NormGroups& params, const Buffer& moments,
                              Buffers out);
// sums [n, 2, c] of dy and dy xhat, gamma [c] -> the means over its group of dy gamma and of
// dy gamma xhat: [n, c] each
void group_norm_grad_means_cuda(CudaContext& ctx, const NormGroups& params, const Buffer& sums,
                                const Buffer& gamma, Buffers out);

// x [.., c] -> the mean and 1 / std of each row
void layer_moments_cuda(CudaContext& ctx, double eps, const Buffer& x, Buffers out);
// dy, x, gamma, mean, 1 / std -> for each row the means over c of dy gamma and of dy gamma xhat
void layer_gradient_means_cuda(CudaContext& ctx, Buffers in, Buffers out);

template <class S, class T>
void block_moments_cuda(CudaContext& ctx, ChannelBlocks blocks, int64_t c, const S* x, T* moments);
// stats_stride: elements from one block's mean to the next, 0 or c
template <class S, class T>
void block_gradient_sums_cuda(CudaContext& ctx, ChannelBlocks blocks, int64_t c, const S* dy,
                              const S* x, const T* mean, const T* scale, int64_t stats_stride,
                              T* sums);
// Like block_gradient_sums_cuda(), with a mean and a scale for each row.
template <class T>
void row_gradient_sums_cuda(CudaContext& ctx, ChannelBlocks blocks, int64_t c, const T* dy,
                            const T* x, const T* mean, const T* scale, T* sums);
template <class T>
void fold_blocks_cuda(CudaContext& ctx, int64_t blocks, int64_t c, const T* sums, T* first,
                      T* second);

// Losses and metrics.

// The arguments of cross_entropy, on any device. Either labels or targets is null.
template <class T>
struct CrossEntropyCase {
  int64_t n, c;
  const T* logits;        // [n, c]
  const int32_t* labels;  // [n]
  const T* targets;       // [n, c]
  double smoothing;
  // in: logits, labels or targets
  CrossEntropyCase(Buffers in, double smoothing)
      : n(in[0].spec.shape[0]),
        c(in[0].spec.shape[1]),
        logits(in[0].as<const T>()),
        labels(in[1].spec.dtype == DType::i32 ? in[1].as<const int32_t>() : nullptr),
        targets(labels ? nullptr : in[1].as<const T>()),
        smoothing(smoothing) {}
};

// in: logits, labels or targets. rows: scratch, n values.
void cross_entropy_loss_cuda(CudaContext& ctx, double smoothing, Buffers in, const Buffer& loss,
                             double* rows);
// in: logits, labels or targets, d_loss. out: d_logits, else d_targets.
void cross_entropy_grad_cuda(CudaContext& ctx, double smoothing, bool of_logits, Buffers in,
                             const Buffer& out);

// y may be x.
void softmax_cuda(CudaContext& ctx, bool logarithm, const Buffer& x, const Buffer& y);
// dx may be dy or y.
void softmax_grad_cuda(CudaContext& ctx, bool logarithm, const Buffer& dy, const Buffer& y,
                       const Buffer& dx);

// correct: scratch, one uint8_t for each row.
void top_k_correct_cuda(CudaContext& ctx, int64_t k, const Buffer& logits, const Buffer& labels,
                        const Buffer& count, uint8_t* correct);

// Pooling and maxima. Bit-identical to the CPU except for the global average, which is summed in
// Pooling and maxima. Bit-identical to the CPU except for the global average, which is summed in
// another order. x, y and their gradients may have 16 bits in pools.

// out: y, and the positions unless nothing reads them
void max_pool2d_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& x, Buffers out);
void max_pool2d_grad_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& dy,
                          const Buffer& positions, const Buffer& dx);
void average_pool2d_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& x,
                         const Buffer& y);
void average_pool2d_grad_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& dy,
                              const Buffer& dx);
// shape: one window over each image
void global_average_pool_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& x,
                              const Buffer& y);
void global_average_pool_grad_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& dy,
                                   const Buffer& dx);

// x as [outer, n, inner].
struct AxisGeometry {
  int64_t outer, n, inner;
  AxisGeometry(const Shape& x, int axis)
      : outer(x.elements(0, axis)), n(x[axis]), inner(x.elements(axis + 1, x.rank())) {}
};

void max_cuda(CudaContext& ctx, const AxisGeometry& g, const Buffer& x, const Buffer& y,
              const Buffer& positions);
void max_grad_cuda(CudaContext& ctx, const AxisGeometry& g, const Buffer& dy,
                   const Buffer& positions, const Buffer& dx);

// Dropout and image normalisation.

struct DropoutParams {
  double p;
  uint64_t key;
  bool operator==(const DropoutParams&) const = default;
};

// Computes the output for an element x and its 32 random bits: word i % 4 of philox(key,
// dropout_sample(), i / 4) for element i of its sample.
template <class T>
struct DropoutRule {
  uint64_t key, threshold;
  T scale;
  explicit DropoutRule(const DropoutParams& params)
      : key(params.key),
        threshold(static_cast<uint64_t>(params.p * 0x1p32)),
        scale(static_cast<T>(1 / (1 - params.p))) {}
  TESSERA_HOST_DEVICE T operator()(uint32_t bits, T x) const {
    return bits >= threshold ? x * scale : T(0);
  }
};

TESSERA_HOST_DEVICE inline uint64_t dropout_sample(int64_t step, int64_t sample) {
  return static_cast<uint64_t>(step) << 32 ^ static_cast<uint64_t>(sample);
}

void dropout_cuda(CudaContext& ctx, const DropoutParams& params, const Buffer& x,
                  const Buffer& position, const Buffer& y);

template <class T>
TESSERA_HOST_DEVICE T normalized_byte(int value, double mean, double stddev) {
  return static_cast<T>((value / 255.0 - mean) / stddev);
}

void image_normalize_cuda(CudaContext& ctx, const ImageNormalizeParams& params, const Buffer& x,
                          const Buffer& y);

// Copies of elements, and matrix products.

inline constexpr int kMaxConcat = 32;  // tensors

// Concatenates inputs [outer, size] to y [outer, sum of sizes].
void concat_cuda(CudaContext& ctx, int64_t outer, Buffers in, const Buffer& y);

void slice_cuda(CudaContext& ctx, const SliceParams& box, const Buffer& x, const Buffer& y);
void slice_grad_cuda(CudaContext& ctx, const SliceParams& box, const Buffer& dy, const Buffer& dx);

void flip_left_right_cuda(CudaContext& ctx, const Buffer& x, const Buffer& y);

// Returns the kernel for a and b, float32 or float64. An optional third input is added to the
// product along its last axis; `bias` is a program of the product and that input. The library's
// algorithm is chosen here, for `scratch` bytes of workspace, which may be 0.
std::unique_ptr<Kernel> matmul_cuda(const MatmulParams& params, const ScalarProgram& bias,
                                    SpecView in, const TensorSpec& out, size_t scratch,
                                    Context& ctx);

// Updates.

// in: lr, then the tensors that must be finite. scratch: their flags (engine/kernels_cuda.h).
void lr_if_finite_cuda(CudaContext& ctx, Buffers in, const Buffer& out, Buffer scratch);
// in: lr, the gradient. scratch: the gradient's flags.
void scale_tensors_cuda(CudaContext& ctx, const Buffer& factor, Buffers in, Buffers out);
void update_gate_cuda(CudaContext& ctx, Buffers in, const Buffer& out, Buffer scratch);

// Increments the counter if lr is finite.
void increment_step_cuda(CudaContext& ctx, const Buffer& counter, const Buffer& lr);

}  // namespace tessera
