#include "tessera/layers/ops/image_normalize.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/op.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/for_rows.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {

namespace {

// Looks results up: a byte has 256 values, so each channel has a table of their results.
template <class T>
class NormalizeKernel final : public Kernel {
 public:
  explicit NormalizeKernel(const ImageNormalizeParams& params) {
    for (size_t c = 0; c < params.mean.size(); ++c) {
      for (int value = 0; value < 256; ++value)
        table_.push_back(T(normalized_byte<Computed<T>>(value, params.mean[c], params.stddev[c])));
    }
  }
  void run(Context& ctx, Buffers in, Buffers out, Buffer) override {
    constexpr int64_t kPixels = 4096;
    const int64_t channels = in[0].spec.shape.back();
    const int64_t pixels = in[0].elements() / channels;
    const uint8_t* x = in[0].as<uint8_t>();
    T* y = out[0].as<T>();
    ThreadPool& pool = static_cast<CpuContext&>(ctx).pool();
    for_row_ranges(pool, pixels, 1, kPixels, [&](int64_t first, int64_t end) {
      const auto look_up = channels == 1   ? look_up_pixels<1>
                           : channels == 3 ? look_up_pixels<3>
                                           : look_up_pixels<0>;
      look_up(table_.data(), x + first * channels, end - first, channels, y + first * channels);
    });
  }

 private:
  // kChannels: `channels` if known at compile time; 0: any.
  template <int64_t kChannels>
  static void look_up_pixels(const T* __restrict table, const uint8_t* __restrict x, int64_t pixels,
                             int64_t channels, T* __restrict y) {
    const int64_t per_pixel = kChannels ? kChannels : channels;
    for (int64_t p = 0; p < pixels; ++p, x += per_pixel, y += per_pixel)
      for (int64_t c = 0; c < per_pixel; ++c) y[c] = table[c * 256 + x[c]];
  }

  std::vector<T> table_;
};

class ImageNormalize final : public OpBase<ImageNormalize, ImageNormalizeParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "image_normalize"; }
  Specs infer(SpecView in) const override {
    InputCheck check("image_normalize", in, {"x"});
    check.dtype(0, DType::u8);
    const auto channels = static_cast<size_t>(in[0].shape.back());
    if (params.mean.empty() || params.mean.size() != channels || params.stddev.size() != channels) {
      check.fail(
          fmt::format("mean and deviation must have one value for each channel, but have {} and {}",
                      params.mean.size(), params.stddev.size()));
    }
    for (double d : params.stddev)
      if (!(d > 0)) check.fail(fmt::format("deviations must be positive, but one is {}", d));
    if (!is_float(params.dtype))
      check.fail(fmt::format("dtype must be floating point, but is {}", name_of(params.dtype)));
    return {{params.dtype, in[0].shape, {}}};
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) image_normalize_cuda(ctx, params, in[0], out[0]);
  }
  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override {
    if (!ctx.device().is_cpu()) return Op::prepare(in, ctx, chosen);
    return visit_any_float(params.dtype, [&]<class T>(T) -> std::unique_ptr<Kernel> {
      return std::make_unique<NormalizeKernel<T>>(params);
    });
  }
};

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

Tensor image_normalize(const Tensor& x, const ImageNormalizeParams& params) {
  return apply1(std::make_shared<ImageNormalize>(params), {x});
}

Tensor flip_left_right(const Tensor& images) {
  return apply1(std::make_shared<FlipLeftRight>(), {images});
}

}  // namespace tessera
