#include "tessera/models/data/augment/mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Returns the logarithm, as small shapes give numbers too small for a double. Draws for shape + 1
// (Marsaglia and Tsang 2000), then reduces it to `shape`.
double log_gamma_variate(double shape, RandomSequence& random) {
  double d = shape + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x = random.normal(), v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    double u = 1 - random.uniform();
    if (std::log(u) >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
    return std::log(d * v) + std::log(1 - random.uniform()) / shape;
  }
}

double beta_variate(double alpha, RandomSequence& random) {
  double a = log_gamma_variate(alpha, random), b = log_gamma_variate(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

void blend(uint8_t* image, const uint8_t* other, int64_t bytes, double share) {
  auto weight = static_cast<int>(std::lround(share * 65536));
  for (int64_t i = 0; i < bytes; ++i)
    image[i] =
        static_cast<uint8_t>((image[i] * weight + other[i] * (65536 - weight) + 32768) >> 16);
}

// Returns the fraction of the image that remains.
double paste(const ImageShape& shape, uint8_t* image, const uint8_t* other, double share,
             RandomSequence& random) {
  double side = std::sqrt(1 - share);
  auto span = [&](int size) {
    int length = static_cast<int>(size * side);
    int begin = static_cast<int>(random.below(static_cast<uint64_t>(size))) - length / 2;
    return std::pair{std::max(begin, 0), std::min(begin + length, size)};
  };
  auto [top, bottom] = span(shape.height);
  auto [left, right] = span(shape.width);
  if (right <= left || bottom <= top) return 1;
  for (int64_t y = top; y < bottom; ++y) {
    int64_t at = (y * shape.width + left) * shape.channels;
    std::memcpy(image + at, other + at, static_cast<size_t>((right - left) * shape.channels));
  }
  double area = double(right - left) * (bottom - top);
  return 1 - area / (double(shape.height) * shape.width);
}

std::string described(const char* name, double alpha, double probability) {
  std::string text = fmt::format("{} alpha {}", name, alpha);
  return probability < 1 ? text + fmt::format(", probability {}", probability) : text;
}

void check_kind(const char* name, double alpha, double probability) {
  if (!(alpha >= 0 && alpha <= 100))
    throw ConfigError(fmt::format("{}: alpha {} is not in [0, 100]", name, alpha));
  if (!(probability >= 0 && probability <= 1))
    throw ConfigError(fmt::format("{}: probability {} is not in [0, 1]", name, probability));
}

}  // namespace

std::string Mix::describe() const {
  std::string text = mixup > 0 ? described("mixup", mixup, mixup_probability) : "";
  if (cutmix > 0)
    text += (text.empty() ? "" : " or ") + described("cutmix", cutmix, cutmix_probability);
  return text;
}

void check_mix(const Mix& mix) {
  check_kind("mixup", mix.mixup, mix.mixup_probability);
  check_kind("cutmix", mix.cutmix, mix.cutmix_probability);
}

void mix_batch(const Mix& mix, const AugmentKey& key, const ImageShape& shape, int64_t count,
               const int64_t* samples, const int32_t* labels, uint8_t* images, int32_t* partners,
               float* shares, const uint8_t* next, int32_t next_label) {
  auto bits = philox(random_key(key.seed, "mix"), static_cast<uint64_t>(key.epoch), 0);
  uint64_t epoch_key = uint64_t{bits[0]} << 32 | bits[1];
  int64_t bytes = shape.bytes();
  for (int64_t i = 0; i < count; ++i) {
    RandomSequence random(epoch_key, static_cast<uint64_t>(samples[i]));
    uint8_t* image = images + i * bytes;
    const uint8_t* other = i + 1 < count ? image + bytes : next;
    partners[i] = i + 1 < count ? labels[i + 1] : next_label;
    shares[i] = 1;
    const double drawn = random.uniform();
    bool cuts = mix.mixup <= 0 || (mix.cutmix > 0 && (random.bits() & 1) != 0);
    if (drawn >= (cuts ? mix.cutmix_probability : mix.mixup_probability)) continue;
    double share = beta_variate(cuts ? mix.cutmix : mix.mixup, random);
    if (cuts)
      share = paste(shape, image, other, share, random);
    else
      blend(image, other, bytes, share);
    shares[i] = static_cast<float>(share);
  }
}

}  // namespace tessera
