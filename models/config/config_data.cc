#include "tessera/models/config/config_data.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/data/sets/published.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/spelling.h"

namespace tessera {

namespace {

Hdf5Source hdf5_source(const DataConfig& data) {
  return {.images = data.images,
          .labels = data.labels != DataConfig().labels ? data.labels : "",
          .class_names = data.class_names,
          .layout = data.layout,
          .range = data.range,
          .test_fraction = data.test_fraction,
          .cache = data.cache.bytes};
}

void check_pairs(const AugmentConfig& step, const std::vector<double>& scale,
                 const std::vector<double>& ratio) {
  if (scale.size() != 2 || ratio.size() != 2)
    throw ConfigError(step.kind + ": scale and ratio must each be two numbers, [low, high]");
}

ResizeCrop resize_crop_of(const AugmentConfig& step) {
  check_pairs(step, step.scale, step.ratio);
  return {step.size, {step.scale[0], step.scale[1]}, {step.ratio[0], step.ratio[1]}};
}

RandomErasing random_erasing_of(const AugmentConfig& step) {
  check_pairs(step, step.erased, step.form);
  return {step.erase_probability,
          {step.erased[0], step.erased[1]},
          {step.form[0], step.form[1]},
          step.mode,
          step.erase_level};
}

// Lists classes that may be mistakes: those with an odd name, such as "_old", "ants (1)" or "ants
// copy", and those with less than a tenth of the median number of images.
std::string odd_classes(const Dataset& data) {
  constexpr size_t kMax = 8;
  const auto mark = [](char c) { return std::ispunct(static_cast<unsigned char>(c)) != 0; };
  const std::vector<int64_t> images = images_of_classes(data);
  std::vector<int64_t> sorted = images;
  const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  std::vector<std::string> odd;
  for (size_t c = 0; c < data.class_names().size() && odd.size() < kMax; ++c) {
    const std::string& name = data.class_names()[c];
    if (name.empty() || mark(name.front()) || mark(name.back()) || name.ends_with(" copy") ||
        name.ends_with(" Copy") || 10 * images[c] < *middle)
      odd.push_back(fmt::format("'{}' ({} images)", name, images[c]));
  }
  return odd.empty() ? "" : fmt::format("; these classes look odd: {}", fmt::join(odd, ", "));
}

}  // namespace

Settings settings_of(const Config& config) {
  return {.threads = config.threads,
          .cpu = {.kernels = config.cpu.kernels, .winograd = config.cpu.winograd},
          .gpu = {.tf32 = config.gpu.tf32,
                  .deterministic = config.deterministic,
                  .workspace = static_cast<size_t>(config.gpu.workspace.bytes),
                  .synchronous = config.gpu.synchronous,
                  .plans = config.gpu.plans}};
}

DataSource data_source(const Config& config) {
  const DataConfig& data = config.data;
  return {.name = data.name,
          .root = data.root,
          .seed = config.seed,
          .train_count = data.train_count,
          .test_count = data.test_count,
          .image_size = data.image_size,
          .resize = data.resize,
          .coarse = data.labels == "coarse",
          .damaged = data.damaged,
          .channels = data.channels,
          .follow_links = data.follow_links,
          .readers = std::clamp<int>(data.workers, 1, 256),
          .hdf5 = hdf5_source(data),
          .test_fraction = data.test_fraction,
          .validation = data.validation};
}

Config with_classes(Config config) try {
  if (config.model.classes == 0) config.model.classes = class_count(data_source(config));
  return config;
} catch (const DataError& error) {
  throw DataError(
      fmt::format("model.classes: is 0, but the classes of the data are unknown: {}; or set "
                  "model.classes",
                  error.what()));
}

Transforms make_transforms(const DataConfig& data) {
  Transforms steps;
  for (const AugmentConfig& step : data.augment) {
    if (step.kind == "flip") {
      steps.push_back(step.flip == "vertical" ? flip_vertical() : flip_horizontal());
    } else if (step.kind == "rotate") {
      steps.push_back(rotate(step.degrees));
    } else if (step.kind == "random_erasing") {
      steps.push_back(random_erasing(random_erasing_of(step)));
    } else if (step.kind == "trivial_augment") {
      steps.push_back(trivial_augment());
    } else if (step.kind == "resize_crop") {
      steps.push_back(resize_crop(resize_crop_of(step)));
    } else if (step.kind == "color_jitter") {
      steps.push_back(color_jitter({step.brightness, step.contrast, step.saturation, step.hue}));
    } else if (step.kind == "cutout") {
      steps.push_back(cutout(step.size, step.level, step.probability));
    } else if (step.kind == "rand_augment") {
      for (const TransformPtr& change : rand_augment(step.n, step.magnitude))
        steps.push_back(change);
    } else if (step.kind == "crop") {
      steps.push_back(crop(step.padding, step.border));
    }
  }
  return steps;
}

Mix make_mix(const DataConfig& data) {
  Mix mix;
  for (const AugmentConfig& step : data.augment) {
    if (step.kind == "mixup") mix.mixup = step.alpha, mix.mixup_probability = step.probability;
    if (step.kind == "cutmix") mix.cutmix = step.alpha, mix.cutmix_probability = step.probability;
  }
  return mix;
}

int64_t evaluation_batch(const Config& config) {
  if (config.eval.batch > 0) return config.eval.batch;
  const int64_t parts = std::min<int64_t>(config.train.accumulate, config.data.batch);
  return (config.data.batch + parts - 1) / parts;
}

LoaderOptions loader_options(const Config& config, bool training, Device device) {
  LoaderOptions options;
  options.batch = training ? config.data.batch : evaluation_batch(config);
  options.workers = config.data.workers;
  options.prefetch = config.data.prefetch;
  options.held = device.is_cpu() ? 1 : 2;
  if (!training) return options;
  options.shuffle = true;
  options.balanced = config.data.sampling == Sampling::kBalanced;
  options.seed = config.seed;
  options.augment = make_transforms(config.data);
  options.mix = make_mix(config.data);
  return options;
}

ImageShape image_shape(const DataConfig& data) {
  int synthetic = data.image_size == 0 ? 32 : data.image_size;
  if (data.name == "synthetic") return {synthetic, synthetic, 3};
  const bool pictures_tell = data.name == "image_folder" && data.channels == Channels::kAuto;
  if (data.name == "image_folder" && !pictures_tell)
    return {data.image_size, data.image_size, data.channels == Channels::kGray ? 1 : 3};
  if (data.name == "hdf5" || pictures_tell) {
    Config config;
    config.data = data;
    config.data.train_count = config.data.test_count = 0;
    return open_data(data_source(config)).train->shape();
  }
  if (const PublishedSet* set = find_published(data.name)) return set->shape;
  throw ConfigError("data.name: " + unknown_name(data.name, data_names()));
}

Normalization normalization_of(const Config& config, const Dataset& data,
                               const NormalizationOf& otherwise) {
  const bool told = data.has_normalization() || !config.data.mean.empty();
  Normalization normalization = told || !otherwise ? data.normalization() : otherwise(data);
  const auto take = [&](const char* key, const std::vector<double>& given,
                        std::vector<float>& values) {
    if (given.empty()) return;
    if (given.size() != static_cast<size_t>(data.channels()))
      throw ConfigError(fmt::format("{}: has {} entries, but the images of {} have {} channels",
                                    key, given.size(), data.name(), data.channels()));
    values.assign(given.begin(), given.end());
  };
  take("data.mean", config.data.mean, normalization.mean);
  take("data.std", config.data.std, normalization.std);
  return normalization;
}

Normalization former_normalization(const Config& config, const Dataset& data) {
  const bool pictures = config.data.name == "image_folder" && data.channels() == 3;
  return pictures ? imagenet_normalization() : data.normalization();
}

std::string spare_classes(const Config& config, const Dataset& data) {
  if (config.model.classes <= data.classes()) return "";
  std::string empty;
  for (const std::string& note : data.notes())
    if (note.find("no picture and w") != note.npos) empty = "; " + note;
  return fmt::format(
      "model.classes: the model has {} classes, but {} has only {}; the others are never correct; "
      "set model.classes={} unless you need them{}{}",
      config.model.classes, data.name(), data.classes(), data.classes(), empty, odd_classes(data));
}

void check_classes(const Config& config, const Dataset& data) {
  if (config.model.classes < data.classes())
    throw ConfigError(fmt::format(
        "model.classes: {} has {} classes, but the model has only {}; set model.classes={}{}",
        data.name(), data.classes(), config.model.classes, data.classes(), odd_classes(data)));
  const auto weights = std::ssize(config.loss.class_weights);
  if (weights > 0 && weights != config.model.classes)
    throw ConfigError(
        fmt::format("loss.class_weights: has {} entries, but the model has {} classes", weights,
                    config.model.classes));
}

}  // namespace tessera
