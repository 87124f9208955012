// The one description of what lists of steps may hold, like config_keys.cc for keys.
#include <algorithm>

#include "tessera/models/config/config_keys.h"

namespace tessera {

bool ItemKind::may_be_bare() const {
  return !takes_value() && std::none_of(options.begin(), options.end(),
                                        [](const ConfigKey& key) { return key.rule.required; });
}

bool ItemKind::takes_list() const {
  return !options.empty() && !takes_value() &&
         std::holds_alternative<std::vector<LayerConfig>*>(options[0].target);
}

// clang-format off
std::vector<ItemKind> item_kinds(AugmentConfig& a) {
  return {
    {"crop", "cuts the image's size out at a random place", {
      {"padding", &a.padding, required(at_least(0, 4096)), "pixels put on each side before"},
      {"border", &a.border, one_of({"zero", "reflect"}), "what they are: black, or mirrored"}}},
    {"flip", "mirrors every second image", {
      {"", &a.flip, one_of({"horizontal"}), "left and right"}}},
    {"resize_crop", "cuts a random part out and scales it; belongs first", {
      {"size", &a.size, at_least(0, 4096), "pixels a side; 0: the data set's"},
      {"scale", &a.scale, at_least(0, 1), "[low, high] of the part's area"},
      {"ratio", &a.ratio, at_least(0, 100), "[low, high] of its width to its height"}}},
    {"color_jitter", "changes colours by random factors from 1 - x to 1 + x", {
      {"brightness", &a.brightness, at_least(0, 10), "x"},
      {"contrast", &a.contrast, at_least(0, 10), "x"},
      {"saturation", &a.saturation, at_least(0, 10), "x"},
      {"hue", &a.hue, at_least(0, 0.5), "turned by up to this part of the colour circle"}}},
    {"cutout", "paints a gray square at a random place", {
      {"size", &a.size, required(at_least(1, 4096)), "pixels a side"},
      {"level", &a.level, at_least(0, 255), "of gray"},
      {"probability", &a.probability, at_least(0, 1), "how often"}}},
    {"rand_augment", "n times one of fourteen changes, drawn at random", {
      {"n", &a.n, at_least(1, 16), "how many"},
      {"magnitude", &a.magnitude, at_least(0, 30), "how strong, out of 30"}}},
    {"mixup", "mixes images of a batch, and their labels", {
      {"alpha", &a.alpha, at_least(0, 100), "of the Beta distribution of the shares"}}},
    {"cutmix", "puts a part of another image of the batch in, and mixes the labels", {
      {"alpha", &a.alpha, at_least(0, 100), "of the Beta distribution of the shares"}}},
  };
}

std::vector<ItemKind> item_kinds(LayerConfig& l) {
  const KeyRule pixels = at_least(1, 65536), count = at_least(1, 1 << 24);
  const KeyRule padding = at_least(0, 65536);
  const std::vector<ConfigKey> pool = {
    {"size", &l.size, required(at_least(1, 256)), "pixels a side of a window"},
    {"stride", &l.pool_stride, pixels, "pixels from window to window; none: the size"},
    {"padding", &l.padding, padding, "pixels on each side"}};
  const ConfigKey eps = {"eps", &l.eps, at_least(kMinFloat, kMaxFloat), "added to the variance"};
  const ConfigKey bias = {"bias", &l.bias, any(), "whether one is added"};
  return {
    {"conv", "convolution of images", {
      {"filters", &l.filters, required(count), "channels it makes"},
      {"kernel", &l.kernel, required(pixels), "pixels a side"},
      {"stride", &l.stride, pixels, "pixels from window to window"},
      {"padding", &l.padding, padding, "pixels of zeros on each side"},
      {"dilation", &l.dilation, pixels, "pixels from tap to tap"},
      {"groups", &l.groups, count, "of channels that are convolved by themselves"},
      bias}},
    {"linear", "every output from every input", {
      {"units", &l.units, required(count), "features it makes"}, bias}},
    {"batch_norm", "normalises each channel over the batch", {
      eps, {"momentum", &l.momentum, at_least(0, 1), "share of the batch in what is remembered"}}},
    {"layer_norm", "normalises the features of each sample or pixel", {eps}},
    {"group_norm", "normalises groups of channels of each image", {
      {"groups", &l.groups, required(count), "of channels"}, eps}},
    {"relu", "max(x, 0)", {}},
    {"relu6", "min(max(x, 0), 6)", {}},
    {"gelu", "x Phi(x)", {}},
    {"silu", "x sigmoid(x)", {}},
    {"sigmoid", "1 / (1 + exp(-x))", {}},
    {"tanh", "hyperbolic tangent", {}},
    {"max_pool", "largest of each window", pool},
    {"average_pool", "mean of each window", pool},
    {"global_average_pool", "mean of each channel: images to features", {}},
    {"flatten", "images to features", {}},
    {"dropout", "zeros at random in training", {
      {"probability", &l.probability, from_below(0, 1), "of a zero"}}},
    {"residual", "adds what its layers make to its input; a list right after it is `layers`", {
      {"layers", &l.layers, required(any()), "the layers"},
      {"shortcut", &l.shortcut, any(), "layers that bring the input to the same shape"}}},
  };
}
// clang-format on

}  // namespace tessera
