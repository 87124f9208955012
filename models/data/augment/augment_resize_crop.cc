#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/models/data/augment/augment.h"
#include "tessera/models/data/images/resample.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

class ResizeCropTransform : public Transform {
 public:
  explicit ResizeCropTransform(const ResizeCrop& settings) : settings_(settings) {
    auto need = [](bool holds, const std::string& text) {
      if (!holds) throw ConfigError("resize_crop: " + text);
    };
    const auto& [size, scale, ratio] = settings;
    need(size >= 0 && size <= 4096, fmt::format("size {} is not in [0, 4096]", size));
    need(scale[0] > 0 && scale[0] <= scale[1] && scale[1] <= 1,
         fmt::format("scale [{}, {}] must rise within (0, 1]", scale[0], scale[1]));
    need(ratio[0] > 0 && ratio[0] <= ratio[1] && ratio[1] <= 100,
         fmt::format("ratio [{}, {}] must rise within (0, 100]", ratio[0], ratio[1]));
  }

  std::string describe() const override {
    return fmt::format("resize_crop {}scale {:.4g} to {:.4g}, ratio {:.4g} to {:.4g}",
                       settings_.size == 0 ? "" : fmt::format("size {}, ", settings_.size),
                       settings_.scale[0], settings_.scale[1], settings_.ratio[0],
                       settings_.ratio[1]);
  }

  ImageShape output(const ImageShape& in) const override {
    return settings_.size == 0 ? in : ImageShape{settings_.size, settings_.size, in.channels};
  }

  bool frames() const override { return true; }

  // Ten tries, each with an area and a ratio of its own; then the largest part in the middle that
  // has an allowed ratio.
  Box frame(const ImageShape& own, RandomSequence& random) const override {
    const auto& [size, scale, ratio] = settings_;
    double area = double(own.height) * own.width;
    double low = std::log(ratio[0]), high = std::log(ratio[1]);
    auto place = [&](int room) { return static_cast<int>(random.below(uint64_t(room) + 1)); };
    for (int i = 0; i < 10; ++i) {
      double part = area * (scale[0] + (scale[1] - scale[0]) * random.uniform());
      double shape = std::exp(low + (high - low) * random.uniform());
      int width = static_cast<int>(std::lround(std::sqrt(part * shape)));
      int height = static_cast<int>(std::lround(std::sqrt(part / shape)));
      if (width < 1 || height < 1 || width > own.width || height > own.height) continue;
      int top = place(own.height - height), left = place(own.width - width);
      return {top, left, height, width};
    }
    double shape = std::clamp(double(own.width) / own.height, ratio[0], ratio[1]);
    int width = std::min(own.width, static_cast<int>(std::lround(own.height * shape)));
    int height = std::min(own.height, static_cast<int>(std::lround(own.width / shape)));
    width = std::max(width, 1), height = std::max(height, 1);
    return {(own.height - height) / 2, (own.width - width) / 2, height, width};
  }

  void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
             RandomSequence& random) const override {
    thread_local Resampler resampler;
    reserve(resampler, shape);
    resize_image(resampler, shape, frame(shape, random), in, output(shape), out);
  }

  size_t thread_bytes(const ImageShape& in) const override {
    Resampler resampler;
    reserve(resampler, in);
    return resampler.bytes();
  }

 private:
  void reserve(Resampler& resampler, const ImageShape& in) const {
    ImageShape out = output(in);
    resampler.reserve(std::max(in.height, in.width), in.channels, out.height, out.width);
  }

  ResizeCrop settings_;
};

}  // namespace

TransformPtr resize_crop(const ResizeCrop& settings) {
  return std::make_shared<ResizeCropTransform>(settings);
}

}  // namespace tessera
