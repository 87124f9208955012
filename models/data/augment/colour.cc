#include "tessera/models/data/augment/colour.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Returns from + factor (to - from), rounded down and clamped to [0, 255].
uint8_t blend(int from, int to, float factor) {
  float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return value <= 0 ? uint8_t{0} : value >= 255 ? uint8_t{255} : static_cast<uint8_t>(value);
}

// Returns the luma of ITU-R 601, computed in 16-bit fixed point.
int gray_of(const uint8_t* rgb) {
  return static_cast<int>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

int64_t pixels_of(const ImageShape& shape) { return int64_t{shape.height} * shape.width; }

using Table = std::array<uint8_t, 256>;

void look_up(const ImageShape& shape, uint8_t* image, int channel, const Table& table) {
  uint8_t* end = image + shape.bytes();
  for (uint8_t* at = image + channel; at < end; at += shape.channels) *at = table[*at];
}

// Blends each byte with `from`.
void blend_all(const ImageShape& shape, uint8_t* image, int from, double factor) {
  Table table;
  for (int i = 0; i < 256; ++i)
    table[static_cast<size_t>(i)] = blend(from, i, static_cast<float>(factor));
  for (int c = 0; c < shape.channels; ++c) look_up(shape, image, c, table);
}

std::array<int64_t, 256> histogram(const ImageShape& shape, const uint8_t* image, int channel) {
  std::array<int64_t, 256> counts{};
  for (int64_t i = channel; i < shape.bytes(); i += shape.channels) ++counts[image[i]];
  return counts;
}

// The changes at full strength.
struct Extremes {
  double degrees, shear, share, pixels, factor, bits;  // translation by share of the side + pixels
};
constexpr Extremes kAutoAugment{30, 0.3, 150.0 / 331, 0, 0.9, 4};
constexpr Extremes kWide{135, 0.99, 0, 32, 0.99, 6};

constexpr int kMaxMagnitude = 30;

// Applies one of fourteen changes. Without a magnitude, draws it, and the changes are wide.
void change_randomly(std::optional<int> given, const ImageShape& shape, const uint8_t* in,
                     uint8_t* out, RandomSequence& random) {
  const Extremes& most = given ? kAutoAugment : kWide;
  const auto change = random.below(14);
  const double sign = (random.bits() & 1) != 0 ? 1 : -1;
  const int magnitude = given ? *given : static_cast<int>(random.below(kMaxMagnitude + 1));
  const double strength = magnitude / double(kMaxMagnitude);
  const double factor = 1 + sign * most.factor * strength, shear = sign * most.shear * strength;
  const auto move = [&](int side) {
    return std::trunc(sign * (most.share * side + most.pixels) * strength);
  };
  switch (change) {
    case 0:
      return warp(shape, in, out, rotation(shape, sign * most.degrees * strength));
    case 1:
      return warp(shape, in, out, {1, shear, 0, 0, 1, 0});
    case 2:
      return warp(shape, in, out, {1, 0, 0, shear, 1, 0});
    case 3:
      return warp(shape, in, out, {1, 0, move(shape.width), 0, 1, 0});
    case 4:
      return warp(shape, in, out, {1, 0, 0, 0, 1, move(shape.height)});
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
      return posterize(shape, out, 8 - static_cast<int>(std::lround(most.bits * strength)));
    case 10:
      return solarize(shape, out, 255.0 * (kMaxMagnitude - magnitude) / kMaxMagnitude);
    case 11:
      return stretch_contrast(shape, out);
    case 12:
      return equalize(shape, out);
    default:
      return;  // identity
  }
}

}  // namespace

void change_brightness(const ImageShape& shape, uint8_t* image, double factor) {
  blend_all(shape, image, 0, factor);
}

void change_contrast(const ImageShape& shape, uint8_t* image, double factor) {
  int64_t sum = 0, pixels = pixels_of(shape);
  bool colour = shape.channels == 3;
  for (int64_t i = 0; i < pixels; ++i)
    sum += colour ? gray_of(image + 3 * i) : image[i * shape.channels];
  int mean = static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
  blend_all(shape, image, mean, factor);
}

void change_saturation(const ImageShape& shape, uint8_t* image, double factor) {
  if (shape.channels != 3) return;
  for (uint8_t* end = image + shape.bytes(); image < end; image += 3) {
    int gray = gray_of(image);
    for (int c = 0; c < 3; ++c) image[c] = blend(gray, image[c], static_cast<float>(factor));
  }
}

// Blurs with the kernel [1 1 1; 1 5 1; 1 1 1] / 13 and blends; border pixels stay unchanged.
void change_sharpness(const ImageShape& shape, const uint8_t* in, uint8_t* out, double factor) {
  std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
  int64_t channels = shape.channels, row = shape.width * channels;
  for (int64_t y = 1; y + 1 < shape.height; ++y) {
    for (int64_t i = y * row + channels; i < (y + 1) * row - channels; ++i) {
      int sum = 4 * in[i];
      for (int64_t dy : {-row, int64_t{0}, row})
        sum += in[i + dy - channels] + in[i + dy] + in[i + dy + channels];
      out[i] = blend((2 * sum + 13) / 26, in[i], static_cast<float>(factor));
    }
  }
}

void change_hue(const ImageShape& shape, uint8_t* image, double turn) {
  if (shape.channels != 3) return;
  auto shift = static_cast<float>(6 * turn + 6);  // in sixths of the circle
  for (uint8_t* end = image + shape.bytes(); image < end; image += 3) {
    int r = image[0], g = image[1], b = image[2];
    int high = std::max({r, g, b}), low = std::min({r, g, b}), range = high - low;
    if (range == 0) continue;
    auto part = [&](int difference) {
      return static_cast<float>(difference) / static_cast<float>(range);
    };
    float hue = high == r ? part(g - b) : high == g ? 2 + part(b - r) : 4 + part(r - g);
    hue += shift;
    while (hue >= 6) hue -= 6;
    int sector = static_cast<int>(hue);
    float within = hue - static_cast<float>(sector);
    float rest = (sector & 1) != 0 ? 1 - within : within;  // the channel between high and low
    auto middle =
        static_cast<uint8_t>(static_cast<float>(low) + rest * static_cast<float>(range) + 0.5f);
    constexpr int kOrder[6][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0}, {2, 1, 0}, {2, 0, 1}, {0, 2, 1}};
    const int* order = kOrder[sector];
    image[order[0]] = static_cast<uint8_t>(high);
    image[order[1]] = middle;
    image[order[2]] = static_cast<uint8_t>(low);
  }
}

void stretch_contrast(const ImageShape& shape, uint8_t* image) {
  for (int c = 0; c < shape.channels; ++c) {
    auto counts = histogram(shape, image, c);
    int low = 0, high = 255;
    while (counts[static_cast<size_t>(low)] == 0) ++low;
    while (counts[static_cast<size_t>(high)] == 0) --high;
    if (high <= low) continue;
    double scale = 255.0 / (high - low), offset = -low * scale;
    Table table;
    for (int i = 0; i < 256; ++i)
      table[static_cast<size_t>(i)] =
          static_cast<uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
    look_up(shape, image, c, table);
  }
}

void equalize(const ImageShape& shape, uint8_t* image) {
  for (int c = 0; c < shape.channels; ++c) {
    auto counts = histogram(shape, image, c);
    size_t last = 255;
    while (counts[last] == 0) --last;
    int64_t step = (pixels_of(shape) - counts[last]) / 255, sum = step / 2;
    if (step == 0) continue;
    Table table;
    for (size_t i = 0; i < 256; sum += counts[i++])
      table[i] = static_cast<uint8_t>(std::min<int64_t>(sum / step, 255));
    look_up(shape, image, c, table);
  }
}

void posterize(const ImageShape& shape, uint8_t* image, int bits) {
  auto mask = static_cast<uint8_t>(0xff << (8 - bits));
  for (uint8_t* end = image + shape.bytes(); image < end; ++image) *image &= mask;
}

void solarize(const ImageShape& shape, uint8_t* image, double threshold) {
  for (uint8_t* end = image + shape.bytes(); image < end; ++image)
    if (*image >= threshold) *image = static_cast<uint8_t>(255 - *image);
}

void warp(const ImageShape& shape, const uint8_t* in, uint8_t* out, const Affine& m) {
  constexpr int kBits = 16;
  auto fixed = [](double value) {
    return static_cast<int64_t>(std::floor(value * (1 << kBits) + 0.5));
  };
  auto pixel = static_cast<size_t>(shape.channels);
  // The source of the centre of the first pixel of a row.
  int64_t row_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  int64_t row_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  const int64_t xx = fixed(m[0]), xy = fixed(m[1]), yx = fixed(m[3]), yy = fixed(m[4]);
  for (int y = 0; y < shape.height; ++y, row_x += xy, row_y += yy) {
    int64_t at_x = row_x, at_y = row_y;
    for (int x = 0; x < shape.width; ++x, at_x += xx, at_y += yx, out += pixel) {
      int64_t from_x = at_x >> kBits, from_y = at_y >> kBits;
      bool inside = from_x >= 0 && from_x < shape.width && from_y >= 0 && from_y < shape.height;
      if (inside)
        std::memcpy(out, in + (from_y * shape.width + from_x) * shape.channels, pixel);
      else
        std::memset(out, 0, pixel);
    }
  }
}

Affine rotation(const ImageShape& shape, double degrees) {
  double angle = -degrees * std::numbers::pi / 180, cosine = std::cos(angle),
         sine = std::sin(angle);
  double x = shape.width / 2.0, y = shape.height / 2.0;
  return {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y};
}

TransformPtr color_jitter(const ColorJitter& settings) {
  const auto within = [](const char* name, double value, double most) {
    if (!(value >= 0 && value <= most))
      throw ConfigError(fmt::format("color_jitter: {} {} is not in [0, {}]", name, value, most));
  };
  within("brightness", settings.brightness, 10);
  within("contrast", settings.contrast, 10);
  within("saturation", settings.saturation, 10);
  within("hue", settings.hue, 0.5);
  const auto apply = [settings](const ImageShape& shape, const uint8_t* in, uint8_t* out,
                                RandomSequence& random) {
    std::memcpy(out, in, static_cast<size_t>(shape.bytes()));
    const auto factor = [&](double x) {
      const double low = std::max(0.0, 1 - x);
      return low + (1 + x - low) * random.uniform();
    };
    const double brightness = factor(settings.brightness), contrast = factor(settings.contrast);
    const double saturation = factor(settings.saturation);
    const double hue = settings.hue * (2 * random.uniform() - 1);
    int order[] = {0, 1, 2, 3};
    for (size_t left = 4; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
    for (int change : order) {
      if (change == 0 && settings.brightness > 0) change_brightness(shape, out, brightness);
      if (change == 1 && settings.contrast > 0) change_contrast(shape, out, contrast);
      if (change == 2 && settings.saturation > 0) change_saturation(shape, out, saturation);
      if (change == 3 && settings.hue > 0) change_hue(shape, out, hue);
    }
  };
  return pixel_transform(
      fmt::format("color_jitter brightness {}, contrast {}, saturation {}, hue {}",
                  settings.brightness, settings.contrast, settings.saturation, settings.hue),
      apply);
}

Transforms rand_augment(int n, int magnitude) {
  constexpr int kMaxChanges = 16;
  if (n < 1 || n > kMaxChanges)
    throw ConfigError(fmt::format("rand_augment: n {} is not in [1, {}]", n, kMaxChanges));
  if (magnitude < 0 || magnitude > kMaxMagnitude)
    throw ConfigError(
        fmt::format("rand_augment: magnitude {} is not in [0, {}]", magnitude, kMaxMagnitude));
  return Transforms(static_cast<size_t>(n),
                    pixel_transform(fmt::format("rand_augment magnitude {}", magnitude),
                                    std::bind_front(change_randomly, magnitude)));
}

TransformPtr trivial_augment() {
  return pixel_transform("trivial_augment", std::bind_front(change_randomly, std::nullopt));
}

}  // namespace tessera
