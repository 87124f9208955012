#include "tessera/models/data/sets/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"

namespace tessera {

namespace {

// Uses only +, -, *, /, sqrt, floor and comparisons on floats: rounded equally on every machine.

enum class Figure {
  kDisk,
  kRing,
  kSquare,
  kFrame,
  kTriangle,
  kCross,
  kStar,
  kStripes,
  kChecks,
  kDots
};
constexpr float kReach = 1.7f;  // square of the maximum distance of figures, in radii

using Colour = std::array<float, 3>;

struct Blob {
  float x, y, radius, strength;
  Colour colour;
};

// The random properties of an image, except the noise.
struct Scene {
  Figure figure;
  bool square_patch;   // the outline of a texture: a square or a disk
  float x, y, radius;  // the figure's centre and size, in pixels
  float cosine, sine;  // the figure's rotation
  float period;        // period of a texture, in radii
  Colour figure_colour, ground, slope_x, slope_y;
  std::array<Blob, 2> clutter;
  float noise;  // standard deviation
};

float between(RandomSequence& random, float low, float high) {
  return low + (high - low) * uniform_float(random.bits());
}

Colour any_colour(RandomSequence& random, float low, float high) {
  Colour colour;
  for (float& c : colour) c = between(random, low, high);
  return colour;
}

// Returns a colour that differs from `other` by at least 200, summed over the channels.
Colour contrasting(RandomSequence& random, const Colour& other) {
  for (;;) {
    Colour colour = any_colour(random, 10, 245);
    float difference = 0;
    for (size_t c = 0; c < 3; ++c) difference += std::abs(colour[c] - other[c]);
    if (difference >= 200) return colour;
  }
}

// Sets a rotation by up to 23 degrees either way; t is the tangent of half the angle.
void turn(RandomSequence& random, Scene& scene) {
  float t = between(random, -0.2f, 0.2f);
  scene.cosine = (1 - t * t) / (1 + t * t);
  scene.sine = 2 * t / (1 + t * t);
}

Scene make_scene(RandomSequence& random, Figure figure, int size) {
  Scene scene;
  auto side = static_cast<float>(size);
  scene.figure = figure;
  scene.square_patch = (random.bits() & 1) != 0;
  scene.radius = between(random, 0.27f, 0.39f) * side;
  scene.x = between(random, scene.radius, side - scene.radius);
  scene.y = between(random, scene.radius, side - scene.radius);
  turn(random, scene);
  scene.period = between(random, 0.5f, 0.6f);
  scene.ground = any_colour(random, 30, 225);
  scene.slope_x = any_colour(random, -40 / side, 40 / side);
  scene.slope_y = any_colour(random, -40 / side, 40 / side);
  scene.figure_colour = contrasting(random, scene.ground);
  for (Blob& blob : scene.clutter) {
    blob.x = between(random, 0, side);
    blob.y = between(random, 0, side);
    blob.radius = between(random, 0.03f, 0.07f) * side;
    blob.strength = between(random, 0.3f, 0.7f);
    blob.colour = any_colour(random, 0, 255);
  }
  scene.noise = between(random, 4, 18);
  return scene;
}

// Returns the distance of x from the middle of the nearest band; bands repeat with the period.
float from_band(float x, float period) {
  float phase = x / period + 64;  // positive, so that the cast rounds down
  return std::abs(phase - static_cast<float>(static_cast<int>(phase)) - 0.5f) * period;
}

float texture(const Scene& scene, float u, float v) {
  float quarter = 0.25f * scene.period;
  float a = from_band(u, scene.period) - quarter, b = from_band(v, scene.period) - quarter;
  if (scene.figure == Figure::kStripes) return a;
  if (scene.figure == Figure::kChecks) {
    float edge = std::min(std::abs(a), std::abs(b));
    return (a < 0) == (b < 0) ? -edge : edge;
  }
  a += quarter, b += quarter;
  return std::sqrt(a * a + b * b) - 0.34f * scene.period;
}

// Returns the approximate distance of (u, v) from the figure's edge, negative inside, in radii.
float distance(const Scene& scene, float u, float v) {
  float length = std::sqrt(u * u + v * v), au = std::abs(u), av = std::abs(v);
  float box = std::max(au, av);
  switch (scene.figure) {
    case Figure::kDisk:
      return length - 0.9f;
    case Figure::kRing:
      return std::abs(length - 0.72f) - 0.2f;
    case Figure::kSquare:
      return box - 0.78f;
    case Figure::kFrame:
      return std::abs(box - 0.64f) - 0.18f;
    case Figure::kTriangle:
      return std::max(v, 0.8660254f * au - 0.5f * v) - 0.5f;
    case Figure::kCross:
      return std::max(std::min(au, av) - 0.25f, box - 0.95f);
    case Figure::kStar: {
      float root = std::sqrt(au) + std::sqrt(av);
      return 0.6f * (root * root - 1.1f);
    }
    default: {
      float outline = scene.square_patch ? box - 0.82f : length - 0.95f;
      return std::max(outline, texture(scene, u, v));
    }
  }
}

// Returns how much of a pixel is covered whose centre is `pixels` outside of an edge.
float coverage(float pixels) { return std::clamp(0.5f - pixels, 0.f, 1.f); }

Colour paint(const Scene& scene, float x, float y) {
  Colour colour;
  for (size_t c = 0; c < 3; ++c) {
    colour[c] =
        scene.ground[c] + scene.slope_x[c] * (x - scene.x) + scene.slope_y[c] * (y - scene.y);
  }
  auto blend = [&](const Colour& over, float share) {
    for (size_t c = 0; c < 3; ++c) colour[c] += share * (over[c] - colour[c]);
  };
  for (const Blob& blob : scene.clutter) {
    float dx = x - blob.x, dy = y - blob.y, reach = blob.radius + 0.5f;
    float square = dx * dx + dy * dy;
    if (square >= reach * reach) continue;
    blend(blob.colour, blob.strength * coverage(std::sqrt(square) - blob.radius));
  }
  float dx = (x - scene.x) / scene.radius, dy = (y - scene.y) / scene.radius;
  if (dx * dx + dy * dy < kReach) {
    float u = scene.cosine * dx + scene.sine * dy, v = scene.cosine * dy - scene.sine * dx;
    blend(scene.figure_colour, coverage(scene.radius * distance(scene, u, v)));
  }
  return colour;
}

// Returns an approximately normal number, mean 0, variance 1: the sum of four random bytes.
float noise(uint32_t bits) {
  uint32_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
  return (static_cast<float>(sum) - 510) * (1 / 147.8f);
}

class Synthetic : public Dataset {
 public:
  Synthetic(uint64_t key, DatasetInfo info) : Dataset(std::move(info)), key_(key) {}

 private:
  void do_read(int64_t index, uint8_t* image) const override {
    auto stream = static_cast<uint64_t>(index);
    RandomSequence random(key_, stream);
    Scene scene = make_scene(random, static_cast<Figure>(do_label(index)), width());
    uint64_t noise_key = random.bits64(), pixel = 0;
    for (int y = 0; y < height(); ++y) {
      for (int x = 0; x < width(); ++x, ++pixel) {
        Colour colour = paint(scene, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
        auto bits = philox(noise_key, stream, pixel);
        for (size_t c = 0; c < 3; ++c) {
          float value = colour[c] + scene.noise * noise(bits[c]);
          *image++ = static_cast<uint8_t>(std::clamp(value + 0.5f, 0.f, 255.f));
        }
      }
    }
  }

  int64_t do_label(int64_t index) const override { return index % kSyntheticClasses; }

  uint64_t key_;
};

}  // namespace

std::shared_ptr<const Dataset> synthetic(uint64_t seed, SyntheticSplit split, int64_t count,
                                         int size) {
  if (size < kSmallestSynthetic || size > kLargestSynthetic) {
    throw ConfigError(fmt::format("data.image_size: {} is not in [{}, {}]", size,
                                  kSmallestSynthetic, kLargestSynthetic));
  }
  if (count < 1)
    throw ConfigError(fmt::format("synthetic data: must have at least 1 image, but has {}", count));
  bool train = split == SyntheticSplit::kTrain;
  DatasetInfo info{.name = train ? "synthetic train" : "synthetic test",
                   .shape = {size, size, 3},
                   .count = count,
                   .classes = kSyntheticClasses,
                   .class_names = {"disk", "ring", "square", "frame", "triangle", "cross", "star",
                                   "stripes", "checks", "dots"},
                   .normalization = {{0.5f, 0.5f, 0.5f}, {0.236f, 0.236f, 0.236f}}};
  return std::make_shared<Synthetic>(random_key(seed, info.name), std::move(info));
}

}  // namespace tessera
