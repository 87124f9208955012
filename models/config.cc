#include "tessera/models/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/models/spelling.h"
#include "tessera/runtime/data/mix.h"
#include "tessera/runtime/data/packed.h"
#include "tessera/runtime/error.h"

namespace tessera {

int64_t Duration::steps(int64_t steps_per_epoch) const {
  double factor = unit == Unit::kEpochs ? static_cast<double>(steps_per_epoch) : 1;
  return std::llround(count * factor);
}

std::string Duration::text() const {
  constexpr const char* kNames[] = {"st", "ep", "min", "h"};
  return fmt::format("{}{}", count, kNames[static_cast<int>(unit)]);
}

std::string ByteSize::text() const {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int64_t count = bytes;
  size_t unit = 0;
  while (count != 0 && count % 1024 == 0 && unit + 1 < std::size(kUnits)) count /= 1024, ++unit;
  return fmt::format("{}{}", count, kUnits[unit]);
}

int64_t TrainConfig::total_steps(int64_t steps_per_epoch) const {
  if (steps) return *steps;
  return Duration{epochs, Duration::Unit::kEpochs}.steps(steps_per_epoch);
}

DataSource data_source(const Config& config) {
  DataSource source;
  source.name = config.data.name;
  source.root = config.data.root;
  source.seed = config.seed;
  source.train_count = config.data.train_count;
  source.test_count = config.data.test_count;
  source.image_size = config.data.image_size;
  source.coarse = config.data.labels == "coarse";
  source.damaged = config.data.damaged == "skip" ? Damaged::kSkip : Damaged::kError;
  source.readers = std::clamp(config.data.workers, 1, 256);
  return source;
}

namespace {

ResizeCrop resize_crop_of(const AugmentConfig& step) {
  if (step.scale.size() != 2 || step.ratio.size() != 2)
    throw ConfigError("resize_crop: scale and ratio are two numbers each, [low, high]");
  return {step.size, {step.scale[0], step.scale[1]}, {step.ratio[0], step.ratio[1]}};
}

}  // namespace

Augment make_augment(const DataConfig& data) {
  Augment steps;
  for (const AugmentConfig& step : data.augment) {
    if (step.kind == "flip") {
      steps.push_back(flip_horizontal());
    } else if (step.kind == "resize_crop") {
      steps.push_back(resize_crop(resize_crop_of(step)));
    } else if (step.kind == "color_jitter") {
      steps.push_back(color_jitter({step.brightness, step.contrast, step.saturation, step.hue}));
    } else if (step.kind == "cutout") {
      steps.push_back(cutout(step.size, step.level, step.probability));
    } else if (step.kind == "rand_augment") {
      for (const AugmentStepPtr& change : rand_augment(step.n, step.magnitude))
        steps.push_back(change);
    } else if (step.kind == "crop") {
      steps.push_back(
          crop(step.padding, step.border == "reflect" ? CropBorder::kReflect : CropBorder::kZero));
    }
  }
  return steps;
}

Mix make_mix(const DataConfig& data) {
  Mix mix;
  for (const AugmentConfig& step : data.augment) {
    if (step.kind == "mixup") mix.mixup = step.alpha;
    if (step.kind == "cutmix") mix.cutmix = step.alpha;
  }
  return mix;
}

ImageShape image_shape(const DataConfig& data) {
  int synthetic = data.image_size == 0 ? 32 : data.image_size;
  if (data.name == "synthetic") return {synthetic, synthetic, 3};
  if (data.name == "image_folder") return {data.image_size, data.image_size, 3};
  if (data.name == "hdf5") return open_packed(data.root).train->shape();
  if (data.name == "cifar10" || data.name == "cifar100") return {32, 32, 3};
  if (data.name == "mnist" || data.name == "fashion_mnist") return {28, 28, 1};
  throw ConfigError("data.name: " + unknown_name(data.name, data_names()));
}

void check_classes(const Config& config, const Dataset& data) {
  if (config.model.classes < data.classes())
    throw ConfigError(fmt::format("model.classes: {} has {} classes, the model only {}", data.name(),
                                  data.classes(), config.model.classes));
}

}  // namespace tessera
