#include "tessera/models/data/augment/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tessera/models/data/augment/colour.h"
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

void check_probability(const char* transform, double probability) {
  if (!(probability >= 0 && probability <= 1))
    throw ConfigError(fmt::format("{}: probability {} is not in [0, 1]", transform, probability));
}

void check_range(const char* transform, const char* name, const double (&range)[2], double most) {
  if (!(range[0] > 0 && range[0] <= range[1] && range[1] <= most))
    throw ConfigError(fmt::format("{}: {} must satisfy 0 < low <= high <= {}, but is [{}, {}]",
                                  transform, name, most, range[0], range[1]));
}

// Draws a part of `area` in the range of `scale` and the ratio of its sides, first : second, evenly
// in the logarithm; returns the sides.
std::pair<int, int> draw_sides(double area, const double (&scale)[2], const double (&ratio)[2],
                               RandomSequence& random) {
  const double low = std::log(ratio[0]), high = std::log(ratio[1]);
  const double part = area * (scale[0] + (scale[1] - scale[0]) * random.uniform());
  const double form = std::exp(low + (high - low) * random.uniform());
  return {static_cast<int>(std::lround(std::sqrt(part * form))),
          static_cast<int>(std::lround(std::sqrt(part / form)))};
}

int draw_place(int spare, RandomSequence& random) {
  return static_cast<int>(random.below(static_cast<uint64_t>(spare) + 1));
}

void check_level(const char* transform, int level) {
  if (level < 0 || level > 255)
    throw ConfigError(fmt::format("{}: level {} is not in [0, 255]", transform, level));
}

TransformPtr flip(bool vertical, double probability) {
  check_probability("flip", probability);
  const auto apply = [=](const ImageShape& shape, const uint8_t* in, uint8_t* out,
                         RandomSequence& random) {
    if (random.uniform() >= probability) {
      std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
      return;
    }
    const auto pixel = static_cast<size_t>(shape.channels),
               row = pixel * static_cast<size_t>(shape.width);
    for (int y = 0; vertical && y < shape.height; ++y, out += row)
      std::memcpy(out, in + (shape.height - 1 - y) * static_cast<int64_t>(row), row);
    for (int y = 0; !vertical && y < shape.height; ++y) {
      const uint8_t* from = in + (int64_t{y} + 1) * shape.width * shape.channels;
      for (int x = 0; x < shape.width; ++x, out += pixel) std::memcpy(out, from -= pixel, pixel);
    }
  };
  return pixel_transform(
      fmt::format("flip {}, probability {}", vertical ? "vertical" : "horizontal", probability),
      apply);
}

// Returns the part to erase; an empty box if ten draws do not fit.
Box draw_erased(const RandomErasing& settings, const ImageShape& shape, RandomSequence& random) {
  const double area = double(shape.height) * shape.width;
  for (int i = 0; i < 10; ++i) {
    const auto [height, width] = draw_sides(area, settings.scale, settings.ratio, random);
    if (height >= shape.height || width >= shape.width) continue;
    const int top = draw_place(shape.height - height, random);
    return {top, draw_place(shape.width - width, random), height, width};
  }
  return {};
}

// Returns the random key of a transform in an epoch; the sample is the stream.
uint64_t step_key(const AugmentKey& key, size_t step) {
  auto bits = philox(random_key(key.seed, "augment"), static_cast<uint64_t>(key.epoch), step);
  return uint64_t{bits[0]} << 32 | bits[1];
}

// Returns the bytes of the largest image that the transforms from `first` on read or write.
int64_t largest_bytes(const Transforms& augment, ImageShape shape, size_t first) {
  int64_t largest = shape.bytes();
  for (size_t i = first; i < augment.size(); ++i) {
    shape = augment[i]->output(shape);
    largest = std::max(largest, shape.bytes());
  }
  return largest;
}

class ResizeCropTransform : public Transform {
 public:
  explicit ResizeCropTransform(const ResizeCrop& settings) : settings_(settings) {
    if (settings.size < 0 || settings.size > 4096)
      throw ConfigError(fmt::format("resize_crop: size {} is not in [0, 4096]", settings.size));
    check_range("resize_crop", "scale", settings.scale, 1);
    check_range("resize_crop", "ratio", settings.ratio, 100);
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
    const double area = double(own.height) * own.width;
    for (int i = 0; i < 10; ++i) {
      const auto [width, height] = draw_sides(area, scale, ratio, random);
      if (width < 1 || height < 1 || width > own.width || height > own.height) continue;
      const int top = draw_place(own.height - height, random);
      return {top, draw_place(own.width - width, random), height, width};
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

TransformPtr pixel_transform(std::string text, PixelChange change) {
  class PixelTransform final : public Transform {
   public:
    PixelTransform(std::string text, PixelChange change)
        : text_(std::move(text)), change_(std::move(change)) {}
    std::string describe() const override { return text_; }
    void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
               RandomSequence& random) const override {
      change_(shape, in, out, random);
    }

   private:
    const std::string text_;
    const PixelChange change_;
  };
  return std::make_shared<PixelTransform>(std::move(text), std::move(change));
}

TransformPtr crop(int padding, CropBorder border) {
  return std::make_shared<Crop>(padding, border);
}

TransformPtr flip_horizontal(double probability) { return flip(false, probability); }
TransformPtr flip_vertical(double probability) { return flip(true, probability); }

TransformPtr rotate(double degrees) {
  if (!(degrees >= 0 && degrees <= 180))
    throw ConfigError(fmt::format("rotate: degrees {} is not in [0, 180]", degrees));
  return pixel_transform(
      fmt::format("rotate by up to {}", degrees),
      [=](const ImageShape& shape, const uint8_t* in, uint8_t* out, RandomSequence& random) {
        warp(shape, in, out, rotation(shape, degrees * (2 * random.uniform() - 1)));
      });
}

TransformPtr resize_crop(const ResizeCrop& settings) {
  return std::make_shared<ResizeCropTransform>(settings);
}

TransformPtr cutout(int size, int level, double probability) {
  if (size < 1) throw ConfigError(fmt::format("cutout: size must be at least 1, but is {}", size));
  check_level("cutout", level);
  check_probability("cutout", probability);
  const auto apply = [=](const ImageShape& shape, const uint8_t* in, uint8_t* out,
                         RandomSequence& random) {
    const auto span = [&](int64_t side) {
      const auto centre = static_cast<int64_t>(random.below(static_cast<uint64_t>(side)));
      const int64_t begin = centre - size / 2;
      return std::pair{std::max<int64_t>(begin, 0), std::min(begin + size, side)};
    };
    std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
    const bool paints = random.uniform() < probability;
    const auto [top, bottom] = span(shape.height);
    const auto [left, right] = span(shape.width);
    for (int64_t y = top; paints && y < bottom; ++y) {
      uint8_t* row = out + (y * shape.width + left) * shape.channels;
      std::memset(row, level, static_cast<size_t>((right - left) * shape.channels));
    }
  };
  return pixel_transform(
      fmt::format("cutout size {}, level {}, probability {}", size, level, probability), apply);
}

TransformPtr random_erasing(const RandomErasing& settings) {
  check_probability("random_erasing", settings.probability);
  check_range("random_erasing", "scale", settings.scale, 1);
  check_range("random_erasing", "ratio", settings.ratio, 100);
  check_level("random_erasing", settings.level);
  const auto apply = [settings](const ImageShape& shape, const uint8_t* in, uint8_t* out,
                                RandomSequence& random) {
    std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
    if (random.uniform() >= settings.probability) return;
    const auto level = [&] {
      return static_cast<uint8_t>(settings.mode == EraseMode::kConst
                                      ? static_cast<uint64_t>(settings.level)
                                      : random.below(256));
    };
    const auto [y, x, height, width] = draw_erased(settings, shape, random);
    const auto channels = static_cast<size_t>(shape.channels);
    const uint8_t* first = nullptr;  // a painted pixel, whose colour the others take
    for (int row = y; row < y + height; ++row) {
      uint8_t* at = out + (int64_t{row} * shape.width + x) * shape.channels;
      for (int k = 0; k < width; ++k, at += channels)
        if (first != nullptr && settings.mode != EraseMode::kPixel)
          std::memcpy(at, first, channels);
        else
          std::generate_n(at, channels, level), first = at;
    }
  };
  return pixel_transform(
      fmt::format("random_erasing probability {}, scale {:.4g} to {:.4g}, ratio {:.4g} to {:.4g}",
                  settings.probability, settings.scale[0], settings.scale[1], settings.ratio[0],
                  settings.ratio[1]),
      apply);
}

Box Transform::frame(const ImageShape&, RandomSequence&) const {
  throw InternalError("augmentation: '" + describe() + "' does not cut out a part");
}

ImageShape output_shape(const Transforms& augment, ImageShape in) {
  for (const auto& step : augment) in = step->output(in);
  return in;
}

int64_t scratch_bytes(const Transforms& augment, ImageShape in) {
  return 2 * largest_bytes(augment, in, 0);
}

void augment_image(const Transforms& augment, const AugmentKey& key, int64_t sample,
                   ImageShape shape, uint8_t* scratch, uint8_t* out, size_t first) {
  if (first == augment.size()) {
    std::memcpy(out, scratch, static_cast<size_t>(shape.bytes()));
    return;
  }
  const int64_t half = largest_bytes(augment, shape, first);
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

}  // namespace tessera
