#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tessera/models/data/augment/augment.h"
#include "tessera/models/data/augment/colour.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

class ColorJitterTransform : public Transform {
 public:
  explicit ColorJitterTransform(const ColorJitter& settings) : settings_(settings) {
    auto within = [](const char* name, double value, double most) {
      if (!(value >= 0 && value <= most))
        throw ConfigError(fmt::format("color_jitter: {} {} is not in [0, {}]", name, value, most));
    };
    within("brightness", settings.brightness, 10);
    within("contrast", settings.contrast, 10);
    within("saturation", settings.saturation, 10);
    within("hue", settings.hue, 0.5);
  }

  std::string describe() const override {
    return fmt::format("color_jitter brightness {}, contrast {}, saturation {}, hue {}",
                       settings_.brightness, settings_.contrast, settings_.saturation,
                       settings_.hue);
  }

  void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
             RandomSequence& random) const override {
    std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
    auto factor = [&](double x) {
      double low = std::max(0.0, 1 - x);
      return low + (1 + x - low) * random.uniform();
    };
    double brightness = factor(settings_.brightness), contrast = factor(settings_.contrast);
    double saturation = factor(settings_.saturation);
    double hue = settings_.hue * (2 * random.uniform() - 1);
    int order[] = {0, 1, 2, 3};
    for (size_t left = 4; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
    for (int change : order) {
      if (change == 0 && settings_.brightness > 0) change_brightness(shape, out, brightness);
      if (change == 1 && settings_.contrast > 0) change_contrast(shape, out, contrast);
      if (change == 2 && settings_.saturation > 0) change_saturation(shape, out, saturation);
      if (change == 3 && settings_.hue > 0) change_hue(shape, out, hue);
    }
  }

 private:
  ColorJitter settings_;
};

class RandomChange : public Transform {
 public:
  explicit RandomChange(int magnitude) : strength_(magnitude / double(kMax)) {}
  static constexpr int kMax = 30;

  std::string describe() const override {
    return fmt::format("rand_augment magnitude {:.0f}", strength_ * kMax);
  }

  // The strengths are those of the AutoAugment family: turns up to 30 degrees, shears up to 0.3,
  // moves up to 150 / 331 of the side, factors up to 1 +- 0.9, down to 4 bits.
  void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
             RandomSequence& random) const override {
    auto change = random.below(14);
    double sign = (random.bits() & 1) != 0 ? 1 : -1;
    double factor = 1 + sign * 0.9 * strength_, shear = sign * 0.3 * strength_;
    double move = sign * 150.0 / 331 * strength_;
    switch (change) {
      case 0:
        return warp(shape, in, out, rotation(shape, sign * 30 * strength_));
      case 1:
        return warp(shape, in, out, {1, shear, 0, 0, 1, 0});
      case 2:
        return warp(shape, in, out, {1, 0, 0, shear, 1, 0});
      case 3:
        return warp(shape, in, out, {1, 0, std::trunc(move * shape.width), 0, 1, 0});
      case 4:
        return warp(shape, in, out, {1, 0, 0, 0, 1, std::trunc(move * shape.height)});
      case 5:
        return change_sharpness(shape, in, out, factor);
      default:
        break;
    }
    std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
    switch (change) {
      case 6:
        return change_brightness(shape, out, factor);
      case 7:
        return change_contrast(shape, out, factor);
      case 8:
        return change_saturation(shape, out, factor);
      case 9:
        return posterize(shape, out, 8 - static_cast<int>(std::lround(4 * strength_)));
      case 10:
        return solarize(shape, out, 255 * (1 - strength_));
      case 11:
        return stretch_contrast(shape, out);
      case 12:
        return equalize(shape, out);
      default:
        return;  // as it is
    }
  }

 private:
  double strength_;  // in [0, 1]
};

}  // namespace

TransformPtr color_jitter(const ColorJitter& settings) {
  return std::make_shared<ColorJitterTransform>(settings);
}

Transforms rand_augment(int n, int magnitude) {
  constexpr int kMaxChanges = 16;
  if (n < 1 || n > kMaxChanges)
    throw ConfigError(fmt::format("rand_augment: n {} is not in [1, {}]", n, kMaxChanges));
  if (magnitude < 0 || magnitude > RandomChange::kMax)
    throw ConfigError(
        fmt::format("rand_augment: magnitude {} is not in [0, {}]", magnitude, RandomChange::kMax));
  return Transforms(static_cast<size_t>(n), std::make_shared<RandomChange>(magnitude));
}

}  // namespace tessera
