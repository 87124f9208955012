#include "tessera/models/config/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/models/config/config_keys.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

int64_t Duration::steps(int64_t steps_per_epoch) const {
  constexpr double kMax = 0x1p62;  // llround() is undefined for values beyond 64 bits
  const double factor = unit == Unit::kEpochs ? static_cast<double>(steps_per_epoch) : 1;
  const double exact = std::min(count * factor, kMax);
  return exact > 0 ? std::max<int64_t>(1, std::llround(exact)) : 0;
}

std::string Duration::text() const {
  constexpr const char* kNames[] = {"st", "ep", "min", "h"};
  return fmt::format("{}{}", count, kNames[static_cast<int>(unit)]);
}

Workers Workers::automatic() {
  constexpr int kMax = 16;
  Workers workers(std::min(available_cores(), kMax));
  workers.automatic_ = true;
  return workers;
}

std::string Workers::text() const { return automatic_ ? "auto" : fmt::format("{}", count_); }

std::string ByteSize::text() const { return is_automatic() ? "auto" : exact_byte_text(bytes); }

int64_t TrainConfig::total_steps(int64_t steps_per_epoch) const {
  if (steps) return *steps;
  return Duration{epochs, Duration::Unit::kEpochs}.steps(steps_per_epoch);
}

// Items of data.augment and optimizer.groups; those of model.layers are next to their builders, in
// layer_network.cc.

bool ItemKind::may_be_bare() const {
  return !takes_value() &&
         std::ranges::none_of(options, [](const ConfigKey& key) { return key.rule.required; });
}

bool ItemKind::takes_list() const {
  return !options.empty() && !takes_value() &&
         std::holds_alternative<std::vector<LayerConfig>*>(options[0].target);
}

// clang-format off
std::vector<ItemKind> item_kinds(AugmentConfig& a) {
  return {
    {"crop", "pads the image and crops it to its own size at a random position", {
      {"padding", &a.padding, required(at_least(0, 4096)), "pixels of padding on each side before cropping"},
      {"border", &a.border, one_of<CropBorder>(), "value of the padding: black, or reflected"}}},
    {"flip", "flips images with probability 1/2", {
      {"", &a.flip, one_of({"horizontal", "vertical"}), "swaps left and right, or top and bottom"}}},
    {"rotate", "rotates images by a random angle, to the nearest pixel", {
      {"degrees", &a.degrees, required(at_least(0, 180)), "the largest angle, in both directions"}}},
    {"resize_crop", "crops and scales a random part; list resize_crop first", {
      {"size", &a.size, at_least(0, 4096), "pixels per side; 0: the data set's"},
      {"scale", &a.scale, at_least(0, 1), "[low, high] of the relative area of the part"},
      {"ratio", &a.ratio, at_least(0, 100), "[low, high] of the ratio of width to height of the part"}}},
    {"color_jitter", "changes colors by random factors from 1 - x to 1 + x", {
      {"brightness", &a.brightness, at_least(0, 10), "x"},
      {"contrast", &a.contrast, at_least(0, 10), "x"},
      {"saturation", &a.saturation, at_least(0, 10), "x"},
      {"hue", &a.hue, at_least(0, 0.5), "rotates hues by up to this fraction of the color circle"}}},
    {"cutout", "paints a gray square at a random position", {
      {"size", &a.size, required(at_least(1, 4096)), "pixels per side"},
      {"level", &a.level, at_least(0, 255), "gray level"},
      {"probability", &a.probability, at_least(0, 1), "probability that an image is changed"}}},
    {"random_erasing", "paints a random rectangle", {
      {"probability", &a.erase_probability, at_least(0, 1), "probability that an image is changed"},
      {"scale", &a.erased, at_least(0, 1), "[low, high] of the relative area"},
      {"ratio", &a.form, at_least(0, 100), "[low, high] of the ratio of height to width"},
      {"mode", &a.mode, one_of<EraseMode>(), "gray of `level`, one random color, or a random color for each pixel"},
      {"level", &a.erase_level, at_least(0, 255), "gray level"}}},
    {"trivial_augment", "applies one of the transforms of rand_augment with random strength", {}},
    {"rand_augment", "applies n of fourteen random transforms", {
      {"n", &a.n, at_least(1, 16), "number of transforms"},
      {"magnitude", &a.magnitude, at_least(0, 30), "strength, out of 30"}}},
    {"mixup", "mixes images of a batch, and their labels", {
      {"alpha", &a.alpha, at_least(0, 100), "parameter of the Beta distribution of the shares"},
      {"probability", &a.probability, at_least(0, 1), "probability; with cutmix, among the images that draw mixup"}}},
    {"cutmix", "pastes a part of another image of the batch, and mixes the labels", {
      {"alpha", &a.alpha, at_least(0, 100), "parameter of the Beta distribution of the shares"},
      {"probability", &a.probability, at_least(0, 1), "probability; with mixup, among the images that draw cutmix"}}},
  };
}
std::vector<ItemKind> item_kinds(GroupConfig& g) {
  const KeyRule factor = at_least(0, kMaxFloat);
  const ConfigKey lr{"lr", &g.lr, factor, "factor of lr"},
      decay{"weight_decay", &g.weight_decay, factor, "factor of weight_decay"};
  return {
    {"vectors", "1-D parameters: biases and norm scales", {lr, decay}},
    {"named", "the parameters of a part of the network", {
      {"part", &g.part, required(any()), "name of the part, such as fc or layer1.0"}, lr, decay}},
  };
}
// clang-format on

}  // namespace tessera
