#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

constexpr int64_t kMostMirrorBlocks = 1 << 16;

__global__ void __launch_bounds__(kThreads)
    mirror(const uint8_t* x, uint8_t* y, int64_t total, int width, int channels) {
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const int64_t pixel = quotient(i, channels), row = quotient(pixel, width);
    const int64_t c = i - pixel * channels, column = pixel - row * width;
    y[i] = x[(row * width + width - 1 - column) * channels + c];
  }
}

}  // namespace

void mirror_cuda(CudaContext& where, const Buffer& x, const Buffer& y) {
  const int64_t total = x.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(where.index());
  const Shape& shape = x.spec.shape;
  launch("mirror", mirror, grid_for(total, kThreads, kMostMirrorBlocks), kThreads, 0,
         where.cuda_stream(), x.as<const uint8_t>(), y.as<uint8_t>(), total,
         static_cast<int>(shape[2]), static_cast<int>(shape[3]));
}

}  // namespace tessera
