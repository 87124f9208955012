#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

constexpr int64_t kMaxFlipBlocks = 1 << 16;

__global__ void __launch_bounds__(kThreads)
    flip_left_right(const uint8_t* x, uint8_t* y, int64_t total, int width, int channels) {
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const int64_t pixel = quotient(i, channels), row = quotient(pixel, width);
    const int64_t c = i - pixel * channels, column = pixel - row * width;
    y[i] = x[(row * width + width - 1 - column) * channels + c];
  }
}

}  // namespace

void flip_left_right_cuda(CudaContext& ctx, const Buffer& x, const Buffer& y) {
  const int64_t total = x.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const Shape& shape = x.spec.shape;
  launch("flip_left_right", flip_left_right, grid_for(total, kThreads, kMaxFlipBlocks), kThreads, 0,
         ctx.cuda_stream(), x.as<const uint8_t>(), y.as<uint8_t>(), total,
         static_cast<int>(shape[2]), static_cast<int>(shape[3]));
}

}  // namespace tessera
