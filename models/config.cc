#include "tessera/models/config.h"

#include <cmath>

#include <fmt/format.h>

#include "tessera/models/spelling.h"
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
  return source;
}

Augment make_augment(const DataConfig& data) {
  Augment steps;
  for (const AugmentConfig& step : data.augment) {
    if (step.kind == "flip")
      steps.push_back(flip_horizontal());
    else
      steps.push_back(
          crop(step.padding, step.border == "reflect" ? CropBorder::kReflect : CropBorder::kZero));
  }
  return steps;
}

ImageShape image_shape(const DataConfig& data) {
  int synthetic = data.image_size == 0 ? 32 : data.image_size;
  if (data.name == "synthetic") return {synthetic, synthetic, 3};
  if (data.name == "cifar10" || data.name == "cifar100") return {32, 32, 3};
  if (data.name == "mnist" || data.name == "fashion_mnist") return {28, 28, 1};
  throw ConfigError("data.name: " + unknown_name(data.name, data_names()));
}

}  // namespace tessera
