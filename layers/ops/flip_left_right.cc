#include "tessera/layers/ops/flip_left_right.h"

#include <algorithm>

#include "tessera/engine/op.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

class FlipLeftRight final : public OpBase<FlipLeftRight> {
 public:
  std::string_view name() const override { return "flip_left_right"; }
  Specs infer(SpecView in) const override {
    const InputCheck check("flip_left_right", in, {"images"});
    check.dtype(0, DType::u8);
    check.rank(0, 4);
    return {in[0]};
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) flip_left_right_cuda(ctx, in[0], out[0]);
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const Shape& shape = in[0].spec.shape;
    const int64_t width = shape[2], channels = shape[3];
    const auto* x = in[0].as<uint8_t>();
    auto* y = out[0].as<uint8_t>();
    ctx.pool().parallel_for(shape[0] * shape[1], [&](int64_t row) {
      const int64_t first = row * width * channels, last = first + width * channels;
      for (int64_t i = 0; i < width; ++i)
        std::copy_n(x + first + i * channels, channels, y + last - (i + 1) * channels);
    });
  }
};

}  // namespace

Tensor flip_left_right(const Tensor& images) {
  return apply1(std::make_shared<FlipLeftRight>(), {images});
}

}  // namespace tessera
