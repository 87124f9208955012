// Translates a configuration into the settings of ops, data sets and loaders. Thread-safe.
#pragma once

#include <functional>

#include "tessera/models/config/config.h"
#include "tessera/models/data/loader.h"
#include "tessera/runtime/context.h"

namespace tessera {

// Returns the settings that select how ops compute.
Settings settings_of(const Config& config);
DataSource data_source(const Config& config);
// Returns the configuration with model.classes of 0 replaced with the number of classes of the
// data. Throws what class_count() (models/data/dataset.h) throws.
Config with_classes(Config config);
Transforms make_transforms(const DataConfig& data);
Mix make_mix(const DataConfig& data);  // mixup and cutmix of data.augment
// Returns the images per evaluation step: eval.batch, or else the largest part of a training step.
int64_t evaluation_batch(const Config& config);
// Returns the options of a loader. For training, images are shuffled, augmented and mixed. `device`
// runs the steps: a GPU reads a batch while the next is prepared.
LoaderOptions loader_options(const Config& config, bool training, Device device = {});
// Returns the shape of an image before augmentation. Opens only hdf5, and a folder whose pictures
// decide the number of channels. Throws ConfigError for an unknown data set, DataError.
ImageShape image_shape(const DataConfig& data);
// Returns the normalization of the configuration, else the data set's own, else (if the set has
// none) that of `otherwise`. Throws ConfigError unless there is one entry per channel.
using NormalizationOf = std::function<Normalization(const Dataset& train)>;
Normalization normalization_of(const Config& config, const Dataset& data,
                               const NormalizationOf& otherwise = {});
// Returns the normalization of earlier versions, which did not measure it, for their checkpoints.
Normalization former_normalization(const Config& config, const Dataset& data);
// Returns a warning if the model has more classes than the data, else an empty string.
std::string spare_classes(const Config& config, const Dataset& data);
// Throws ConfigError if the data has more classes than the model, or loss.class_weights has not one
// weight for each class.
void check_classes(const Config& config, const Dataset& data);

}  // namespace tessera
