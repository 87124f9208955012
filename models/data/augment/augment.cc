#include "tessera/models/data/augment/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tessera/models/data/images/resample.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

class Crop : public Transform {
 public:
  Crop(int padding, CropBorder border) : padding_(padding), border_(border) {
    if (padding < 0) throw ConfigError(fmt::format("crop: padding {} is negative", padding));
  }

  std::string describe() const override {
    return fmt::format("crop padding {}{}", padding_,
                       border_ == CropBorder::kReflect ? " reflect" : "");
  }

  ImageShape output(const ImageShape& in) const override {
    if (padding_ >= std::min(in.height, in.width)) {
      throw ConfigError(
          fmt::format("crop: padding must be less than the height and width of the images, but is "
                      "{} for [{}x{}x{}]: a crop could contain only padding; use a smaller padding",
                      padding_, in.height, in.width, in.channels));
    }
    return in;
  }

  void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
             RandomSequence& random) const override {
    auto places = static_cast<uint64_t>(2 * int64_t{padding_} + 1);
    int64_t top = static_cast<int64_t>(random.below(places)) - padding_;
    int64_t left = static_cast<int64_t>(random.below(places)) - padding_;
    int64_t row = int64_t{shape.width} * shape.channels;
    for (int64_t y = 0; y < shape.height; ++y, out += row) {
      int64_t from = source(y + top, shape.height);
      if (from < 0) {
        std::memset(out, 0, static_cast<size_t>(row));
      } else {
        cut_row(in + from * row, left, shape, out);
      }
    }
  }

 private:
  // Returns the row or column of the image at position i; -1 for black.
  int64_t source(int64_t i, int64_t size) const {
    if (i >= 0 && i < size) return i;
    if (border_ == CropBorder::kZero) return -1;
    return i < 0 ? -i : 2 * (size - 1) - i;
  }

  void cut_row(const uint8_t* in, int64_t left, const ImageShape& shape, uint8_t* out) const {
    auto pixel = static_cast<size_t>(shape.channels);
    for (int64_t x = 0; x < shape.width; ++x, out += pixel) {
      int64_t from = source(x + left, shape.width);
      if (from < 0) {
        std::memset(out, 0, pixel);
      } else {
        std::memcpy(out, in + from * shape.channels, pixel);
      }
    }
  }

  int padding_;
  CropBorder border_;
};

class FlipHorizontal : public Transform {
 public:
  explicit FlipHorizontal(double probability) : probability_(probability) {
    if (!(probability >= 0 && probability <= 1)) {
      throw ConfigError(fmt::format("flip: probability {} is not in [0, 1]", probability));
    }
  }

  std::string describe() const override {
    return fmt::format("flip horizontal, probability {}", probability_);
  }

  void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
             RandomSequence& random) const override {
    if (random.uniform() >= probability_) {
      std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
      return;
    }
    auto pixel = static_cast<size_t>(shape.channels);
    for (int y = 0; y < shape.height; ++y) {
      const uint8_t* from = in + (int64_t{y} + 1) * shape.width * shape.channels;
      for (int x = 0; x < shape.width; ++x, out += pixel) std::memcpy(out, from -= pixel, pixel);
    }
  }

 private:
  double probability_;
};

class Cutout : public Transform {
 public:
  Cutout(int size, int level, double probability)
      : size_(size), level_(level), probability_(probability) {
    if (size < 1)
      throw ConfigError(fmt::format("cutout: size must be at least 1, but is {}", size));
    if (level < 0 || level > 255)
      throw ConfigError(fmt::format("cutout: level {} is not in [0, 255]", level));
    if (!(probability >= 0 && probability <= 1))
      throw ConfigError(fmt::format("cutout: probability {} is not in [0, 1]", probability));
  }

  std::string describe() const override {
    return fmt::format("cutout size {}, level {}, probability {}", size_, level_, probability_);
  }

  void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
             RandomSequence& random) const override {
    std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
    bool paints = random.uniform() < probability_;
    auto [top, bottom] = span(shape.height, random);
    auto [left, right] = span(shape.width, random);
    if (!paints) return;
    for (int64_t y = top; y < bottom; ++y) {
      uint8_t* row = out + (y * shape.width + left) * shape.channels;
      std::memset(row, level_, static_cast<size_t>((right - left) * shape.channels));
    }
  }

 private:
  struct Span {
    int64_t begin, end;
  };
  Span span(int64_t side, RandomSequence& random) const {
    int64_t centre = static_cast<int64_t>(random.below(static_cast<uint64_t>(side)));
    int64_t begin = centre - size_ / 2;
    return {std::max<int64_t>(begin, 0), std::min(begin + size_, side)};
  }

  int size_, level_;
  double probability_;
};

// Returns the random key of a transform in an epoch; the sample is the stream.
uint64_t step_key(const AugmentKey& key, size_t step) {
  auto bits = philox(random_key(key.seed, "augment"), static_cast<uint64_t>(key.epoch), step);
  return uint64_t{bits[0]} << 32 | bits[1];
}

class ResizeCropTransform : public Transform {
 public:
  explicit ResizeCropTransform(const ResizeCrop& settings) : settings_(settings) {
    auto need = [](bool holds, const std::string& text) {
      if (!holds) throw ConfigError("resize_crop: " + text);
    };
    const auto& [size, scale, ratio] = settings;
    need(size >= 0 && size <= 4096, fmt::format("size {} is not in [0, 4096]", size));
    need(scale[0] > 0 && scale[0] <= scale[1] && scale[1] <= 1,
         fmt::format("scale must satisfy 0 < low <= high <= 1, but is [{}, {}]", scale[0],
                     scale[1]));
    need(ratio[0] > 0 && ratio[0] <= ratio[1] && ratio[1] <= 100,
         fmt::format("ratio must satisfy 0 < low <= high <= 100, but is [{}, {}]", ratio[0],
                     ratio[1]));
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

  // Tries ten times, each with a new area and ratio; then returns the largest part in the middle
  // with an allowed ratio.
  Box frame(const ImageShape& own, RandomSequence& random) const override {
    const auto& [size, scale, ratio] = settings_;
    double area = double(own.height) * own.width;
    double low = std::log(ratio[0]), high = std::log(ratio[1]);
    auto place = [&](int spare) { return static_cast<int>(random.below(uint64_t(spare) + 1)); };
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

TransformPtr crop(int padding, CropBorder border) {
  return std::make_shared<Crop>(padding, border);
}

TransformPtr flip_horizontal(double probability) {
  return std::make_shared<FlipHorizontal>(probability);
}

TransformPtr cutout(int size, int level, double probability) {
  return std::make_shared<Cutout>(size, level, probability);
}

Box Transform::frame(const ImageShape&, RandomSequence&) const {
  throw InternalError("augmentation: '" + describe() + "' does not cut out a part");
}

ImageShape output_shape(const Transforms& augment, ImageShape in) {
  for (const auto& step : augment) in = step->output(in);
  return in;
}

int64_t scratch_bytes(const Transforms& augment, ImageShape in) {
  int64_t largest = in.bytes();
  for (const auto& step : augment) {
    in = step->output(in);
    largest = std::max(largest, in.bytes());
  }
  return 2 * largest;
}

void augment_image(const Transforms& augment, const AugmentKey& key, int64_t sample,
                   ImageShape shape, uint8_t* scratch, uint8_t* out, size_t first) {
  if (first == augment.size()) {
    std::memcpy(out, scratch, static_cast<size_t>(shape.bytes()));
    return;
  }
  int64_t half = 0;
  ImageShape next = shape;
  for (size_t i = first; i < augment.size(); ++i) {
    half = std::max(half, next.bytes());
    next = augment[i]->output(next);
  }
  half = std::max(half, next.bytes());
  const uint8_t* from = scratch;
  uint8_t* spare = scratch + half;
  for (size_t i = first; i < augment.size(); ++i) {
    uint8_t* to = i + 1 == augment.size() ? out : spare;
    RandomSequence random(step_key(key, i), static_cast<uint64_t>(sample));
    augment[i]->apply(shape, from, to, random);
    shape = augment[i]->output(shape);
    spare = const_cast<uint8_t*>(from);  // both halves of scratch are writable
    from = to;
  }
}

bool reads_parts(const Dataset& data, const Transforms& augment) {
  return data.has_own_sizes() && !augment.empty() && augment[0]->frames();
}

ImageShape read_framed(const Dataset& data, const Transforms& augment, const AugmentKey& key,
                       int64_t sample, uint8_t* image) {
  RandomSequence random(step_key(key, 0), static_cast<uint64_t>(sample));
  ImageShape shape = augment[0]->output(data.shape());
  data.read_part(sample, augment[0]->frame(data.own_shape(sample), random), shape, image);
  return shape;
}

TransformPtr resize_crop(const ResizeCrop& settings) {
  return std::make_shared<ResizeCropTransform>(settings);
}

}  // namespace tessera
